package httptest

import (
	"bytes"
	"compress/gzip"
	"net/http"
)

// Redirect scripts a 302 to another place, such as another origin.
func Redirect(location string) Reply { return Respond(http.StatusFound, "Location", location) }

// Huge scripts an answer whose body has so many bytes; a negative size is an empty body.
func Huge(status, size int) Reply {
	r := Respond(status, "Content-Type", "text/plain; charset=utf-8")
	r.Body = bytes.Repeat([]byte("coffee\n"), max(0, size)/7+1)[:max(0, size)]
	return r
}

// Bomb scripts a gzip body of about a thousandth of the size that it unpacks to.
func Bomb(status, unpacked int) Reply {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	zeros := make([]byte, 64<<10)
	for left := unpacked; left > 0; left -= len(zeros) {
		_, _ = w.Write(zeros[:min(left, len(zeros))]) // a bytes.Buffer takes everything
	}
	_ = w.Close()
	r := Respond(status, "Content-Type", "application/json", "Content-Encoding", "gzip")
	r.Body = packed.Bytes()
	return r
}
