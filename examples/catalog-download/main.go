// Catalog-download fetches a whole rate-limited catalog into a JSON Lines file,
// as fast as the server's quota allows and without ever being refused.
//
//	go run ./examples/catalog-download
//
// starts a small limited server of its own and downloads 2,350 coffees from it.
// With -url it downloads from any API that hands out a list in pages:
//
//	catalog-download -url https://api.botigaaroma.example/v1/cafes -out cafes.jsonl -limit 300/min
//
// The file can be trusted at any time: every page is on disk before the state
// beside it (FILE.state) says so. After Ctrl-C, a crash or a power cut the same
// command with -resume cuts off what the state does not vouch for and goes on
// from there, so that each item is in the file exactly once.
//
// Exit codes: 0 the catalog is complete, 1 it is not, 2 the command line or the
// output file is not usable.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"botigaaroma.example/polite"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program whatever it does
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run is the program: progress and errors go to stderr, the summary to stdout.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	set, err := parseFlags(args, getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout)
		return exitDone
	case err != nil:
		complain(stderr, fmt.Errorf("%w (see -h)", err))
		return exitUsage
	}
	err = work(ctx, set, stdout, stderr)
	if err == nil {
		return exitDone
	}
	complain(stderr, errors.New(set.discreet(err.Error())))
	if errors.As(err, new(*unusableError)) {
		return exitUsage
	}
	return exitFailed
}

// work opens the file, downloads into it and sums up.
func work(ctx context.Context, set *settings, stdout, stderr io.Writer) (err error) {
	file, err := openJournal(set.out, set.resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	if err := file.pagedBy(set.scheme); err != nil {
		return err
	}
	if file.Complete {
		if err := set.confirm(file); err != nil {
			return explain(err, set, file)
		}
		_, err := fmt.Fprintf(stdout, "%s is complete: %s items, nothing to do; to download anew, name another -out\n", set.out, thousands(file.Items))
		return unsaid(err, file)
	}
	if set.url == "" {
		server, err := startServer(set)
		if err != nil {
			return err
		}
		defer server.stop()
		set.url = server.url
		fmt.Fprintf(stderr, "own server at %s, limit %s\n", server.url, server.limit)
	}
	show := newDisplay(stderr, file.Items)
	t := newTally(show, set.verbose, set.discreet)
	begun := file.Items
	err = download(ctx, set.pager(t, file.Checkpoint), file, t)
	show.end()
	if err != nil {
		return explain(err, set, file)
	}
	if file.device { // which may be where stdout goes
		stdout = stderr
	}
	err = t.print(stdout, file, begun)
	if begun == 0 && t.onePage() {
		fmt.Fprintln(stderr, "catalog-download: warning: "+set.loneliness())
	}
	return unsaid(err, file)
}

// unsaid is the error of a summary that nobody can read; the file has all items.
func unsaid(err error, file *journal) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is complete, but the summary cannot be printed: %w", file.path, err)
}

// download stores the pages that the pager delivers, one by one.
func download(ctx context.Context, pager *polite.Pager[item], file *journal, t *tally) error {
	for page, err := range pager.Pages(ctx) {
		if err != nil {
			return err
		}
		if err := file.append(page.Items, page.CheckpointAfter(len(page.Items))); err != nil {
			return err
		}
		t.page(file.Items, page.Progress.Total)
	}
	return file.finish()
}

// confirm is an error if a complete file is of another collection than the one
// that is asked for. Nothing is fetched.
func (set *settings) confirm(file *journal) error {
	if set.url == "" { // the program's own server has one only
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range set.pager(newTally(nil, false, nil), file.Checkpoint).Pages(ctx) {
		if errors.Is(err, polite.ErrBadCheckpoint) {
			return err
		}
		return nil
	}
	return nil
}

// unusableError is a mistake of the command line, found before anything was
// downloaded.
type unusableError struct{ err error }

func (e *unusableError) Error() string { return e.err.Error() }
func (e *unusableError) Unwrap() error { return e.err }

// complain prints an error as one line.
func complain(w io.Writer, err error) {
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "polite: ")
	fmt.Fprintln(w, "catalog-download: "+text)
}
