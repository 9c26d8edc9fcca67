package webhook_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport/store"
)

func ExampleNew() {
	shared, err := store.NewMemory(nil) // with several replicas: store/nats, store/redis or store/postgres
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	key := make([]byte, 32) // the same for all replicas, from a secret store
	rand.Read(key)

	_, err = webhook.New(&webhook.Options{
		Store: shared,
		Keys:  [][]byte{key},
		Verified: func(_ context.Context, _, url string) bool {
			return url == "https://gateway.example.com/hooks" // confirmed in the dashboard
		},
	})
	fmt.Println(err)
	_, err = webhook.New(&webhook.Options{Store: shared})
	fmt.Println(err)
	// Output:
	// <nil>
	// webhook: Options.Store needs Keys, since it contains the secrets of subscriptions
}
