package polite

import (
	"errors"
	"net/http"
	"strings"
)

// checkRedirect is a Client's rule for redirects, in the place of net/http's:
// at most ten, and no secret leaves the origin that it was given for.
func checkRedirect(req *http.Request, via []*http.Request) error {
	leaveSecrets(req, via)
	if len(via) >= 10 { // as net/http does without a CheckRedirect
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// leaveSecrets takes off a redirected request what is not meant for its origin.
// Net/http does so between hosts that are strangers, and for a few headers; here
// another scheme, port or subdomain is another origin too (RFC 6454 section 4),
// and the rest of a URL, its query above all, is not told to it as the Referer.
func leaveSecrets(req *http.Request, via []*http.Request) {
	if hostKeyOf(req.URL) != hostKeyOf(via[len(via)-1].URL) {
		req.Header.Del("Referer")
	}
	if hostKeyOf(req.URL) == hostKeyOf(via[0].URL) {
		return
	}
	if via[0].Header.Get("Referer") != "" { // the caller's own, which net/http repeats at every step
		req.Header.Del("Referer")
	}
	for name := range req.Header {
		if isCredential(name) {
			delete(req.Header, name)
		}
	}
}

// isCredential reports whether a header is likely to hold a secret, by its name:
// there are too many names for API keys to list. An Idempotency-Key is none, and
// has to follow its request: without it the server could carry it out twice.
func isCredential(header string) bool {
	header = strings.ToLower(header)
	if header == strings.ToLower(headerIdempotencyKey) {
		return false
	}
	for _, part := range []string{"auth", "cookie", "credential", "key", "password", "secret", "session", "signature", "token"} {
		if strings.Contains(header, part) {
			return true
		}
	}
	return false
}
