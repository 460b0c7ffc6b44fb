package httptest

import (
	"encoding/json"
	"fmt"
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
	return answer{status: status, header: make(http.Header, 16), body: body}
}

// traceID numbers the responses; the seed keeps two servers' ids apart.
func traceID(seed, n uint64) string {
	return fmt.Sprintf("trz_%08x", uint32((n+seed)*0x9e3779b1))
}
