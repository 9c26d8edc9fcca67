package page_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
)

func ExampleHandler() {
	ch, err := channel.New(&channel.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ch.Close()
	mux := http.NewServeMux()
	mux.Handle("/approval", ch) // approval.Guard(rules, ch, nil) asks it
	mux.Handle("/approvals/", page.Handler(nil))
	web := httptest.NewServer(mux)
	defer web.Close()
	// A person opens web.URL + "/approvals/#token=" + ch.Token().
	resp, err := web.Client().Get(web.URL + "/approvals/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}
