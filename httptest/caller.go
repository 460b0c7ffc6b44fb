package httptest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Tier is a kind of caller; values combine with | where a [Policy] is for several.
type Tier uint8

// The tiers of Botiga Aroma.
const (
	Anonymous  Tier = 1 << iota // no token
	Client                      // role client
	ThirdParty                  // an app that acts for users, known by its client_id
	Partner                     // role soci, or an API key
	Internal                    // roles empleat and administrador
)

// Caller is whom a request comes from. The server issues no tokens; it believes what a token says:
//
//	Authorization: Bearer ROLE:SUBJECT           role client, soci, empleat or administrador
//	Authorization: Bearer app:CLIENT_ID:SUBJECT  a third-party app, for one of its users
//	Authorization: Bearer ANYTHING               role client; the subject is a fingerprint of the token
//	X-API-Key: NAME                              a partner
//	(none)                                       anonymous, counted by IP address
type Caller struct {
	Tier     Tier
	ClientID string // of a third-party app
	Subject  string // the user
	APIKey   string // a partner's; a fingerprint, not the key itself
	IP       string // the client's address; IPv6 is cut to its /64
}

// Key is what limits count against: oauth:<client_id>, usr:<subject>, key:<API key> or ip:<address>, the first that is known.
func (c Caller) Key() string {
	switch {
	case c.ClientID != "":
		return "oauth:" + c.ClientID
	case c.Subject != "":
		return "usr:" + c.Subject
	case c.APIKey != "":
		return "key:" + c.APIKey
	default:
		return "ip:" + c.IP
	}
}

var roles = map[string]Tier{"client": Client, "soci": Partner, "empleat": Internal, "administrador": Internal}

// identify reads the caller from the request. proxies is the number of trusted proxies in front of the server.
func identify(r *http.Request, proxies int) Caller {
	c := Caller{Tier: Anonymous, IP: clientIP(r, proxies)}
	if token, ok := bearer(r); ok {
		c.Tier = Client
		role, rest, named := strings.Cut(token, ":")
		id, subject, delegated := strings.Cut(rest, ":")
		switch tier, known := roles[role]; {
		case role == "app" && delegated && id != "":
			c.Tier, c.ClientID, c.Subject = ThirdParty, id, subject
		case named && known && rest != "":
			c.Tier, c.Subject = tier, rest
		default:
			c.Subject = fingerprint(token)
		}
		return c
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		c.Tier, c.APIKey = Partner, fingerprint(key)
	}
	return c
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// fingerprint stands for a secret in logs and on the page.
func fingerprint(secret string) string { return fmt.Sprintf("#%08x", uint32(digest(secret))) }

// clientIP is the address that the outermost trusted proxy saw: the entry so many from the right of
// X-Forwarded-For. What stands left of it can be forged. Without enough entries the connection's own address counts.
func clientIP(r *http.Request, proxies int) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if proxies > 0 {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if len(hops) >= proxies {
			if hop := strings.TrimSpace(hops[len(hops)-proxies]); hop != "" {
				host = hop
			}
		}
	}
	return groupIP(host)
}

// groupIP cuts an IPv6 address to its /64, which one subscriber has to himself.
func groupIP(host string) string {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if addr.Is4() {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return host // not reached: 64 bits fit an IPv6 address
	}
	return prefix.String()
}
