package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"botigaaroma.example/polite"
)

// explain turns the error that ended a download into what a person can act on.
func explain(err error, set *settings, file *journal) error {
	advice := ""
	anew := false // whether going on with the file would be of no use
	var answer *polite.ResponseError
	var stopped *polite.PageError
	switch {
	case errors.Is(err, context.Canceled):
		err = errors.New("stopped")
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		advice = set.tokenAdvice()
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		advice = "; is the URL right? (-url)"
	case errors.Is(err, polite.ErrBadPager):
		return &unusableError{err}
	case errors.Is(err, polite.ErrBadCheckpoint):
		return &unusableError{fmt.Errorf("%s: %w; resume with the -url that it was begun with", file.path, err)}
	case errors.Is(err, polite.ErrIncomplete) && !set.counted() && errors.As(err, &stopped):
		err = fmt.Errorf("incomplete: the server told no next page after %s of %s items; %s", thousands(stopped.Items), thousands(stopped.Total), set.nextAdvice())
		anew = true
	case errors.Is(err, polite.ErrPageLoop) && set.counted():
		advice = fmt.Sprintf(" Name it by -params %s=…", set.scheme)
		anew = true
	case errors.Is(err, polite.ErrPageLoop), errors.Is(err, polite.ErrTooManyItems):
		anew = true
	}
	switch {
	case file.Items == 0 || file.device:
	case anew:
		advice += fmt.Sprintf("; %s holds %s items; begin anew with another -out", file.path, thousands(file.Items))
	default:
		advice += fmt.Sprintf("; %s holds %s items; to go on, run the same command with -resume", file.path, thousands(file.Items))
	}
	return fmt.Errorf("%w%s", err, advice)
}

// tokenAdvice is for a server that does not let the download in.
func (set *settings) tokenAdvice() string {
	if set.token == "" {
		return "; no token was sent: give one in the variable " + tokenVariable
	}
	return "; is the token right? (-token, or the variable " + tokenVariable + ")"
}

// nextAdvice is for a page after which there should have been another.
func (set *settings) nextAdvice() string {
	if set.scheme == "link" {
		return "it had no Link header with rel=next: is -scheme link right?"
	}
	return fmt.Sprintf("it named none in its field %q: are -scheme cursor and -fields next=… right?", set.fields["next"])
}

// loneliness is what to ask about a collection that had one page, and did not
// tell how many items it has.
func (set *settings) loneliness() string { return "one page only; " + set.nextAdvice() }

// counted reports whether pages have numbers; with the other schemes the server
// names the next page.
func (set *settings) counted() bool { return set.scheme == "offset" || set.scheme == "page" }
