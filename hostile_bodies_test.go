package polite_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"botigaaroma.example/polite"
)

// drippingBody is a body without an end: as fast as it is read, or one byte after
// each pause.
type drippingBody struct {
	ctx   context.Context
	pause time.Duration
	read  int64
}

func (b *drippingBody) Read(p []byte) (int, error) {
	if b.pause > 0 {
		select {
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		case <-time.After(b.pause):
			p = p[:1]
		}
	}
	for i := range p {
		p[i] = ' '
	}
	b.read += int64(len(p))
	return len(p), nil
}

func (b *drippingBody) Close() error { return nil }

// endless answers with this status and an endless body at first, n times, and
// then with a 200.
func endless(n, status int, pause time.Duration, headers ...string) (base http.RoundTripper, bodies *[]*drippingBody) {
	bodies = new([]*drippingBody)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if len(*bodies) == n {
			return answered(req, 200, "done"), nil
		}
		resp := answered(req, status, "", headers...)
		body := &drippingBody{ctx: req.Context(), pause: pause}
		*bodies = append(*bodies, body)
		resp.Body, resp.ContentLength = body, -1
		return resp, nil
	}), bodies
}

// What is read of an answer that nobody gets is 256 KiB at most, whether it is
// endless or a bomb that unpacks.
func TestDrainEndsAfterItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, bodies := endless(2, 503, 0)
		start := time.Now()
		resp, body := do(t, polite.New(steadily(base)), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, "done", body)
		assert.Equal(t, 3*time.Second, time.Since(start), "the backoff alone")
		for _, b := range *bodies {
			assert.EqualValues(t, 256<<10, b.read)
		}
	})
}

// Nor does it take longer than 200 ms, however little comes.
func TestDrainEndsAfterItsTime(t *testing.T) {
	for _, pause := range []time.Duration{time.Millisecond, 150 * time.Millisecond, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			base, _ := endless(1, 503, pause)
			o := steadily(base)
			o.Retry.Backoff = polite.Constant(0)
			start := time.Now()
			do(t, polite.New(o), request(t, http.MethodGet, aCoffee, ""))
			assert.Equal(t, 200*time.Millisecond, time.Since(start), "%s", pause)
		})
	}
}

// The drain is a part of the delay that follows it, not on top.
func TestDrainDoesNotAddToTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, _ := endless(1, 503, time.Hour)
		start := time.Now()
		do(t, polite.New(steadily(base)), request(t, http.MethodGet, aCoffee, ""))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A peek takes what it was told to take, of any body.
func TestPeekEndsAfterItsBytes(t *testing.T) {
	for _, n := range []int{1, 100, 64 << 10} {
		b := &drippingBody{}
		resp := &http.Response{Body: b}
		assert.Len(t, polite.PeekBody(resp, n), n)
		assert.EqualValues(t, n, b.read)
	}
	b := &drippingBody{}
	polite.CheckResponse(&http.Response{StatusCode: 500, Body: b})
	assert.EqualValues(t, 64<<10, b.read)
}

// A Classify that peeks belongs to the call, which has an end: a body that comes
// byte by byte does not hold it for longer than MaxElapsed.
func TestPeekOfClassifyEndsWithTheCall(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 29 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			base, _ := endless(1, 403, pause, "Content-Type", "application/json")
			o := steadily(base)
			o.Retry.MaxElapsed = time.Minute
			o.Classify = func(resp *http.Response, err error) polite.Verdict {
				if err == nil {
					polite.PeekBody(resp, 64<<10)
				}
				return polite.DefaultClassify(resp, err)
			}
			start := time.Now()
			resp, err := polite.New(o).Get(t.Context(), aCoffee)
			assert.Equal(t, time.Minute, time.Since(start))
			require.NoError(t, err)
			assert.Equal(t, 403, resp.StatusCode)
			_, err = readSome(resp)
			var timeout *polite.AttemptTimeoutError
			require.ErrorAs(t, err, &timeout)
			resp.Body.Close()
		})
	}
}

// So it is with the error body of a Fetch.
func TestErrorBodyOfAFetchEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, _ := endless(1, 500, 29*time.Second)
		start := time.Now()
		resp, err := polite.New(steadily(base)).Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
		assert.Equal(t, 5*time.Minute, time.Since(start))
		var e *polite.ResponseError
		require.ErrorAs(t, err, &e)
		_, err = io.Copy(io.Discard, resp.Body)
		var timeout *polite.AttemptTimeoutError
		require.ErrorAs(t, err, &timeout)
	})
}

// And it is cut at the bound of every body of a Fetch.
func TestEndlessErrorBodyOfAFetchIsCut(t *testing.T) {
	base, bodies := endless(1, 500, 0)
	resp, err := polite.New(steadily(base)).Fetch(request(t, http.MethodGet, aCoffee, ""), nil)
	var e *polite.ResponseError
	require.ErrorAs(t, err, &e)
	n, err := io.Copy(io.Discard, resp.Body)
	var large *polite.BodyTooLargeError
	require.ErrorAs(t, err, &large)
	assert.EqualValues(t, polite.MaxFetch+1, n)
	assert.EqualValues(t, polite.MaxFetch+1, (*bodies)[0].read)
}
