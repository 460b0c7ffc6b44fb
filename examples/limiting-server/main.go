// Limiting-server is a rate-limiting API on a port, for trying out a client by hand.
//
//	go run ./examples/limiting-server -algorithm token-bucket -limit 60 -window 1m
//
// It prints curl lines that send one request too many, and shows at / a page with the counters of every key,
// the refusals over time and what each client's manners are worth. Ctrl-C ends it.
//
// Exit codes: 0 it was stopped, 1 it could not listen, 2 the command line makes no sense.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	politetest "botigaaroma.example/polite/httptest"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout)
		return exitDone
	case err != nil:
		return complain(stderr, err)
	}
	set.config.Alert = func(a politetest.Alert) { fmt.Fprintf(stderr, "%s %s\n", a.At.Format("15:04:05"), a) }
	set.config.KeepArrivals = latestShown
	server, err := politetest.New(set.config)
	if err != nil {
		return complain(stderr, err)
	}
	listener, err := net.Listen("tcp", set.addr)
	if err != nil {
		fmt.Fprintf(stderr, "limiting-server: %v%s\n", err, addrAdvice(set.addr))
		return exitFailed
	}
	printCurl(stdout, set, listener.Addr().(*net.TCPAddr))
	return serve(ctx, server, set, listener, stderr)
}

// addrAdvice is how to write an address that lacks its colon.
func addrAdvice(addr string) string {
	if strings.Contains(addr, ":") {
		return ""
	}
	host, port := addr, "8080"
	if _, err := strconv.Atoi(addr); err == nil {
		host, port = "", addr
	}
	return fmt.Sprintf("; write -addr %s:%s", host, port)
}

// complain says in one line what is wrong with the command line.
func complain(stderr io.Writer, err error) int {
	text := err.Error()
	var bad *politetest.ConfigError
	if errors.As(err, &bad) {
		text = bad.Field + ": " + bad.Problem
	}
	fmt.Fprintf(stderr, "limiting-server: %s (see -h)\n", text)
	return exitUsage
}

func serve(ctx context.Context, server *politetest.Server, set *settings, listener net.Listener, stderr io.Writer) int {
	httpServer := server.HTTPServer(withPage(server, set))
	stop := context.AfterFunc(ctx, func() { _ = httpServer.Close() }) // ends Serve below
	defer stop()
	if err := httpServer.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintf(stderr, "limiting-server: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// curlsAtOnce is how many requests curl has under way at most.
const curlsAtOnce = 300

// printCurl says what to paste into a shell.
func printCurl(w io.Writer, set *settings, addr *net.TCPAddr) {
	host := addr.String()
	if addr.IP.IsUnspecified() {
		host = fmt.Sprintf("localhost:%d", addr.Port)
	}
	url := "http://" + host
	item := url + "/v1/cafes/caf_00001"
	fmt.Fprintf(w, "%s\nlive page: %s/\n\n", set.summary(), url)
	fmt.Fprintf(w, "# one request, and its headers\ncurl -si '%s/v1/cafes?limit=20' | sed '/^.$/q'\n\n", url)
	if n, ok := set.admitted(); ok && set.queues() && n >= curlsAtOnce {
		fmt.Fprintf(w, "# the queue holds %d, and curl asks for %d at once at most: nobody is refused\n\n", n, curlsAtOnce)
	} else if ok {
		parallel := ""
		if set.queues() {
			parallel = fmt.Sprintf("--no-progress-meter -Z --parallel-immediate --parallel-max %d ", curlsAtOnce)
		}
		fmt.Fprintf(w, "# one request too many: %d are admitted, and the next is refused\n"+
			"curl -s %s-o /dev/null -w '%%{http_code}\\n' '%s?[1-%d]' | sort | uniq -c\n\n", n, parallel, item, n+1)
		fmt.Fprintf(w, "# how long to wait now\ncurl -si '%s' | grep -iE '^(HTTP|retry-after|(aroma-|x-)?ratelimit)'\n\n", item)
	} else {
		fmt.Fprintf(w, "# no request is refused in a row of %d\n\n", set.tried())
	}
	fmt.Fprintf(w, "# the same as a signed-in client\ncurl -si -H 'Authorization: Bearer client:42' '%s'\n", item)
}
