package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dovetail-go/dovetail/client/webhook"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func ExampleNew() {
	receiver, err := webhook.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(receiver)
	defer web.Close()

	registration, err := receiver.Register(func(_ context.Context, d webhook.Delivery) error {
		fmt.Println(d.Subscription, d.Type, d.ID, "cursor", *d.Cursor)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Close()
	// The client calls events/subscribe with the secret. The result contains the id.
	if err := registration.Bind("sub_1"); err != nil {
		log.Fatal(err)
	}

	// The server delivers an event.
	body := []byte(`{"eventId":"evt_1","name":"incident.created","timestamp":"2026-02-19T16:00:00Z","data":{},"cursor":"7"}`)
	signer, err := standardwebhooks.NewWebhook(registration.Secret())
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	signed, err := signer.Sign("evt_1", now, body)
	if err != nil {
		log.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, web.URL, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Mcp-Subscription-Id", "sub_1")
	req.Header.Set("Webhook-Id", "evt_1")
	req.Header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
	req.Header.Set("Webhook-Signature", signed)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output:
	// sub_1 event evt_1 cursor 7
	// 200 OK
}
