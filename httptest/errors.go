package httptest

import (
	"encoding/json"
	"net/http"
)

// errorBody renders an error in the API's one shape. Only a 5xx carries the trace id.
func errorBody(code, message, trace string) []byte {
	type inner struct {
		Code    string `json:"codi"`
		Message string `json:"missatge"`
		Details []any  `json:"detalls"`
		Trace   string `json:"tracaId,omitempty"`
	}
	b, err := json.Marshal(struct {
		Error inner `json:"error"`
	}{inner{code, message, []any{}, trace}})
	if err != nil {
		return []byte("{}") // not reached: strings always marshal
	}
	return b
}

func errorAnswer(status int, code, message string) answer {
	return jsonAnswer(status, errorBody(code, message, ""))
}

func jsonAnswer(status int, body []byte) answer {
	return answer{status: status, header: make(http.Header, 12), body: body}
}

// traceID numbers the responses; the seed keeps two servers' ids apart.
func traceID(seed, n uint64) string {
	const digits = "0123456789abcdef"
	id := [12]byte{'t', 'r', 'z', '_'}
	for x, i := uint32((n+seed)*0x9e3779b1), len(id)-1; i >= 4; i-- {
		id[i], x = digits[x&15], x>>4
	}
	return string(id[:])
}
