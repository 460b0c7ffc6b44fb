package httptest

import "net/http"

// errorBody renders an error in the API's one shape. Only a 5xx carries the trace id. All of it is this
// package's own text, which needs no escaping.
func errorBody(code, message, trace string) []byte {
	body := make([]byte, 0, 192)
	body = append(body, `{"error":{"codi":"`...)
	body = append(body, code...)
	body = append(body, `","missatge":"`...)
	body = append(body, message...)
	body = append(body, `","detalls":[]`...)
	if trace != "" {
		body = append(body, `,"tracaId":"`...)
		body = append(body, trace...)
		body = append(body, '"')
	}
	return append(body, "}}"...)
}

func errorAnswer(status int, code, message string) *answer {
	return jsonAnswer(status, errorBody(code, message, ""))
}

func jsonAnswer(status int, body []byte) *answer {
	return newAnswer(status, make(http.Header, 12), body)
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
