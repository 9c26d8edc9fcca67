package webclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	c := webclient.New(nil, nil)
	c.Acquire()
	defer c.Release()
	to, err := webclient.ParseURL(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	var progress webclient.Progress
	res, err := c.Post(context.Background(), to, http.Header{}, []byte(`{}`), &progress)
	if err != nil {
		fmt.Println(err, progress.Delivery())
		return
	}
	defer res.Body.Close()
	refused := webclient.ReadStatusError(res)
	fmt.Println(refused)
	fmt.Println(webclient.DeliveryOf(refused))
	// Output:
	// POST was answered with status 401 Unauthorized: "who are you?\n"
	// rejected before execution
}
