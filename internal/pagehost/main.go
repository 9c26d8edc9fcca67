// Pagehost serves the approval page and a channel behind it, and asks what it is told to, for
// the tests of the page in a browser. It is run by .ci/browser.
//
// It reads orders on standard input and says what happens on standard output, one JSON
// object a line each. It ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "the `address` to listen at")
	token := flag.String("token", "", "the channel's `token`; by default a random one")
	flag.Parse()
	if err := run(*addr, *token); err != nil {
		log.Fatal(err)
	}
}

func run(addr, token string) error {
	asked, err := channel.New(&channel.Options{Token: token, Patience: time.Minute})
	if err != nil {
		return err
	}
	defer asked.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	h := &host{channel: asked, said: json.NewEncoder(os.Stdout), open: map[string]context.CancelFunc{}}
	server := &http.Server{Handler: h.handler(), ConnState: h.note, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // until it is closed
	defer serving.Wait()
	defer server.Close()
	h.say(event{URL: fmt.Sprintf("http://%s/approvals/", listener.Addr()), Token: asked.Token()})
	return h.obey(bufio.NewScanner(os.Stdin))
}

func (h *host) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/approval", h.channel)
	mux.Handle("/approvals/", page.Handler(nil))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.say(event{Request: r.RequestURI, Referer: r.Referer()})
		mux.ServeHTTP(w, r)
	})
}
