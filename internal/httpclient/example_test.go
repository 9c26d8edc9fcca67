package httpclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/internal/httpclient"
)

func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	c := httpclient.New(server.URL, nil, nil, nil)
	if err := c.Acquire(); err != nil {
		fmt.Println(err)
		return
	}
	defer c.Release()
	var progress httpclient.Progress
	res, err := c.Post(context.Background(), c.URL(), http.Header{}, []byte(`{}`), &progress)
	if err != nil {
		fmt.Println(err, progress.Delivery())
		return
	}
	defer res.Body.Close()
	refused := httpclient.ReadStatusError(res)
	fmt.Println(refused)
	fmt.Println(httpclient.DeliveryOf(refused))
	// Output:
	// POST was answered with status 401 Unauthorized: "who are you?\n"
	// rejected before execution
}
