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
	TierAnonymous  Tier = 1 << iota // no token
	TierClient                      // role client
	TierThirdParty                  // an app that acts for users, known by its client_id
	TierPartner                     // role soci, or an API key
	TierInternal                    // roles empleat and administrador
)

// caller is whom a request comes from. The package documentation says how it shows.
type caller struct {
	tier     Tier
	clientID string // of a third-party app
	subject  string // the user
	apiKey   string // a partner's; a fingerprint, not the key itself
	ip       string // the client's address; IPv6 is cut to its /64
}

// appendKey appends what limits count against, the first that is known.
func (c *caller) appendKey(to []byte) []byte {
	kind, name := "ip:", c.ip
	switch {
	case c.clientID != "":
		kind, name = "oauth:", c.clientID
	case c.subject != "":
		kind, name = "usr:", c.subject
	case c.apiKey != "":
		kind, name = "key:", c.apiKey
	}
	return append(append(to, kind...), name...)
}

var roles = map[string]Tier{"client": TierClient, "soci": TierPartner, "empleat": TierInternal, "administrador": TierInternal}

// identify reads the caller from the request. peer is the address at the other end of the connection, and proxies
// the number of trusted proxies in front of the server.
func identify(r *http.Request, peer string, proxies int) caller {
	c := caller{tier: TierAnonymous, ip: clientIP(r, peer, proxies)}
	if token, ok := bearer(r); ok {
		c.tier = TierClient
		role, rest, named := strings.Cut(token, ":")
		id, subject, delegated := strings.Cut(rest, ":")
		switch tier, known := roles[role]; {
		case role == "app" && delegated && id != "":
			c.tier, c.clientID, c.subject = TierThirdParty, id, subject
		case named && known && rest != "":
			c.tier, c.subject = tier, rest
		default:
			c.subject = fingerprint(token)
		}
		return c
	}
	if key := first(r.Header, "X-Api-Key"); key != "" {
		c.tier, c.apiKey = TierPartner, fingerprint(key)
	}
	return c
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(first(r.Header, "Authorization"), " ")
	if !ok {
		return "", false
	}
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// fingerprint stands for a secret in logs and on the page.
func fingerprint(secret string) string { return fmt.Sprintf("#%08x", uint32(digest(secret))) }

// clientIP is the address that the outermost trusted proxy saw: the entry so many from the right of
// X-Forwarded-For. What stands left of it can be forged. Without enough entries the peer's own address counts.
func clientIP(r *http.Request, peer string, proxies int) string {
	if proxies == 0 {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if len(hops) < proxies {
		return peer
	}
	if hop := strings.TrimSpace(hops[len(hops)-proxies]); hop != "" {
		return groupIP(hop)
	}
	return peer
}

// peerOf is the address at the other end of a real connection.
func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
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
