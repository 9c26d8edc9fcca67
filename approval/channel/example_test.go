package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// ask asks as a gate does.
func ask(c *channel.Channel) {
	a, err := c.Approve(context.Background(), &approval.Request{
		ID:        "1",
		Target:    approval.Target{Server: "files", Tool: "delete"},
		Arguments: json.RawMessage(`{"path":"/etc/passwd"}`),
		Deadline:  time.Now().Add(time.Minute),
	})
	fmt.Println(a.Approved, a.Reason, err)
}

func ExampleNew() {
	c, err := channel.New(&channel.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// approval.Guard(rules, c, nil) asks it, and http.Handle("/approval", c) connects approvers.
	ask(c)
	// Output: false  Approval channel not connected
}

func ExampleDial() {
	c, err := channel.New(&channel.Options{Logger: slog.New(slog.DiscardHandler), ReconnectTimeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(c)
	defer web.Close()
	defer c.Close()
	person, err := channel.Dial(context.Background(), web.URL, func(ctx context.Context, p *approval.Prompt) {
		fmt.Println("asked:", p)
		if err := p.Reject(ctx, "keep that"); err != nil {
			fmt.Println(err)
		}
	}, &channel.ClientOptions{Token: c.Token(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer person.Close()
	ask(c)
	// Output:
	// asked: files.delete(path='/etc/passwd')
	// false keep that <nil>
}
