package polite_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
	politetest "botigaaroma.example/polite/httptest"
)

// A stream without a key is passed on as it comes, and sent again only while
// nobody has read from it.
func TestStreamIsRepeatedOnlyWhileUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		base := recordBodies(serving(t).Transport(), &bodies)
		dials := 0
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			if dials++; dials < 3 {
				req.Body.Close()
				return nil, politetestRefused(t, req)
			}
			return base.RoundTrip(req)
		}))
		req, err := http.NewRequest(http.MethodPost, aCoffee, io.MultiReader(strings.NewReader("once only")))
		require.NoError(t, err)
		resp, _ := do(t, polite.New(o), req)
		assert.Equal(t, 3, polite.Attempts(resp))
		assert.Equal(t, []string{"once only"}, bodies)
	})
}

// politetestRefused is the error of a refused connection.
func politetestRefused(t *testing.T, req *http.Request) error {
	bare := req.Clone(req.Context())
	bare.Body = nil
	_, err := serving(t, politetest.Fail(politetest.Refuse)).Transport().RoundTrip(bare)
	require.Error(t, err)
	return err
}

// An error of the caller's own reader is not the server's fault.
//
// Case C007.
func TestErrorOfTheCallersReaderIsFinalAndNeutral(t *testing.T) {
	errOwn := errors.New("disk on fire")
	for _, keyed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t)
			transport, stop := s.Pipe()
			defer stop()
			o := steadily(transport)
			o.Breaker.Failures = 1
			c := polite.New(o)
			req, err := http.NewRequest(http.MethodPost, aCoffee, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errOwn)))
			require.NoError(t, err)
			if keyed {
				req.Header.Set("Idempotency-Key", "k")
			}
			_, err = c.Do(req)
			assert.ErrorIs(t, err, errOwn)
			assert.ErrorContains(t, err, "reading the request body")
			var e *polite.RetryError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, e.Attempts)
			assert.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
			synctest.Wait()
		})
	}
}

// A reader that fails because the transport has closed it has not failed.
func TestReadAfterCloseIsNotTheCallersError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		o := steadily(roundTripper(func(req *http.Request) (*http.Response, error) {
			attempts++
			if attempts == 1 { // an answer before the body was read
				req.Body.Close()
				_, err := req.Body.Read(make([]byte, 1))
				assert.Error(t, err)
				return answered(req, 503, ""), nil
			}
			io.Copy(io.Discard, req.Body)
			req.Body.Close()
			if attempts == 2 {
				return nil, errLost
			}
			return answered(req, 200, "done"), nil
		}))
		req := request(t, http.MethodPut, aCoffee, "body")
		plain := req.GetBody
		req.GetBody = func() (io.ReadCloser, error) {
			rc, err := plain()
			return &strictBody{ReadCloser: rc}, err
		}
		req.Body = &strictBody{ReadCloser: req.Body}
		_, body := do(t, polite.New(o), req)
		assert.Equal(t, "done", body)
		assert.Equal(t, 3, attempts)
	})
}

// strictBody fails when it is read after it was closed, as files do.
type strictBody struct {
	io.ReadCloser
	closed bool
}

func (b *strictBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, os.ErrClosed
	}
	return b.ReadCloser.Read(p)
}

func (b *strictBody) Close() error {
	b.closed = true
	return b.ReadCloser.Close()
}

// A failing GetBody ends the call with its error, and blames nobody else.
func TestFailingGetBodyIsFinalAndNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errOwn := errors.New("no second copy")
		s := serving(t, politetest.Respond(503).Times(-1))
		o := steadily(s.Transport())
		o.Breaker.Failures = 2
		c := polite.New(o)
		req := request(t, http.MethodPut, aCoffee, "body")
		req.GetBody = func() (io.ReadCloser, error) { return nil, errOwn }
		_, err := c.Do(req)
		assert.ErrorIs(t, err, errOwn)
		assert.Equal(t, 1, s.Requests())
		assert.Equal(t, polite.BreakerClosed, statsOf(t, c.Transport()).Breaker)
	})
}

// A writer that feeds a body is told when nobody will read it.
//
// Case C193.
func TestPipeWriterIsReleasedWhenNothingIsSent(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := serving(t, politetest.Respond(503))
			o := steadily(s.Transport())
			o.Retry.Disable, o.Breaker.Failures = true, 1
			c := polite.New(o)
			send := func(ctx context.Context) error {
				r, w := io.Pipe()
				written := make(chan error)
				go func() {
					_, err := w.Write([]byte("some"))
					if err == nil {
						_, err = w.Write([]byte("more"))
					}
					written <- err
				}()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, aCoffee, r)
				require.NoError(t, err)
				if keyed {
					req.Header.Set("Idempotency-Key", "k")
				}
				_, err = c.Do(req)
				require.ErrorIs(t, <-written, io.ErrClosedPipe)
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			assert.ErrorIs(t, send(ctx), context.Canceled)

			do(t, c, request(t, http.MethodGet, aCoffee, ""))
			var open *polite.CircuitOpenError
			assert.ErrorAs(t, send(t.Context()), &open)
		})
	}
}

// Reading ahead a body that never comes ends with the caller's patience, or the
// call's.
func TestReadingAheadEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t)
		c := polite.New(steadily(s.Transport()))
		send := func(ctx context.Context) (time.Duration, error) {
			r, w := io.Pipe()
			defer w.Close()
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, aCoffee, r)
			require.NoError(t, err)
			start := time.Now()
			_, err = c.Do(req)
			return time.Since(start), err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		took, err := send(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, took)

		took, err = send(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Minute, took, "MaxElapsed")
		assert.Zero(t, s.Requests())
	})
}

// A length without a body is net/http's error to make, not ours to hide.
func TestMissingBodyIsNotReplaced(t *testing.T) {
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		assert.Nil(t, req.Body)
		assert.EqualValues(t, 5, req.ContentLength)
		return answered(req, 200, ""), nil
	})
	req := request(t, http.MethodPut, aCoffee, "")
	req.ContentLength = 5
	resp, err := polite.NewTransport(steadily(base)).RoundTrip(req)
	require.NoError(t, err)
	readBody(t, resp)
}
