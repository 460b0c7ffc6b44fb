package polite_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// certificate makes a certificate for a.test that certifies itself.
func certificate(t *testing.T, from, to time.Time) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.test"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// tlsServer counts the connections and the requests that arrive, over TLS.
type tlsServer struct {
	address            string
	dialled, requested atomic.Int64
}

func serveTLS(t *testing.T, config *tls.Config) *tlsServer {
	s := &tlsServer{}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { s.requested.Add(1) }))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.dialled.Add(1)
		}
	}
	h.TLS = config
	h.StartTLS()
	t.Cleanup(h.Close)
	s.address = h.Listener.Addr().String()
	return s
}

// base dials the server whatever the name.
func (s *tlsServer) base(t *testing.T, config *tls.Config) *http.Transport {
	base := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.address)
	}}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// A certificate that does not verify will not do so in a second: one connection,
// no request, and the error says why.
func TestCertificatesThatDoNotVerifyAreFinal(t *testing.T) {
	now := time.Now()
	good, pool := certificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	expired, expiredPool := certificate(t, now.Add(-2*time.Hour), now.Add(-time.Hour))
	early, earlyPool := certificate(t, now.Add(time.Hour), now.Add(2*time.Hour))
	for name, tc := range map[string]struct {
		certificate tls.Certificate
		client      *tls.Config
		host        string
		as          any
	}{
		"unknown authority": {good, &tls.Config{RootCAs: x509.NewCertPool()}, "a.test", new(x509.UnknownAuthorityError)},
		"expired":           {expired, &tls.Config{RootCAs: expiredPool}, "a.test", new(x509.CertificateInvalidError)},
		"not yet valid":     {early, &tls.Config{RootCAs: earlyPool}, "a.test", new(x509.CertificateInvalidError)},
		"another name":      {good, &tls.Config{RootCAs: pool}, "b.test", new(x509.HostnameError)},
		"a name like it":    {good, &tls.Config{RootCAs: pool}, "a.test.evil.test", new(x509.HostnameError)},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+" "+method, func(t *testing.T) {
				s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{tc.certificate}})
				_, err := polite.New(atOnceAfter(s.base(t, tc.client))).Do(request(t, method, "https://"+tc.host+"/", "x", "Authorization", "Bearer s3cr3t"))
				var e *polite.RetryError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, 1, e.Attempts)
				assert.Equal(t, polite.ReasonFinal, e.Reason)
				assert.False(t, e.Sent)
				assert.ErrorAs(t, err, tc.as)
				assert.NotContains(t, err.Error(), "s3cr3t")
				assert.EqualValues(t, 1, s.dialled.Load())
				assert.Zero(t, s.requested.Load())
			})
		}
	}
	s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{good}})
	resp, _ := do(t, polite.New(atOnceAfter(s.base(t, &tls.Config{RootCAs: pool}))), request(t, http.MethodGet, "https://a.test/", ""))
	assert.Equal(t, 200, resp.StatusCode, "the right one")
}

// A redirect to a host whose certificate does not verify ends the call, with
// nothing sent there.
func TestRedirectToAnUnverifiedHostSendsNothing(t *testing.T) {
	good, pool := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{good}})
	next := s.base(t, &tls.Config{RootCAs: pool})
	first := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "first.test" {
			return answered(req, 307, "", "Location", "https://evil.test/"), nil
		}
		return next.RoundTrip(req)
	})
	_, err := polite.New(atOnceAfter(first)).Get(t.Context(), "https://first.test/?token=s3cr3t")
	require.ErrorAs(t, err, new(x509.HostnameError))
	assert.NotContains(t, err.Error(), "s3cr3t")
	assert.Zero(t, s.requested.Load())
}
