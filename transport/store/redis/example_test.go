package redis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/transport/store/redis"
)

func ExampleConnect() {
	server, err := miniredis.Run() // stands in for a real server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	s, err := redis.Connect(ctx, "redis://"+server.Addr(), &redis.Options{Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	revision, err := s.Create(ctx, "session/1", []byte("open"), 0)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Update(ctx, "session/1", []byte("closed"), revision, 0); err != nil {
		log.Fatal(err)
	}
	item, err := s.Get(ctx, "session/1")
	fmt.Println(string(item.Value), err)
	// Output: closed <nil>
}

// The client may also be for sentinels, from goredis.NewFailoverClient, or for a cluster, from
// goredis.NewClusterClient.
func ExampleNew() {
	server, err := miniredis.Run() // stands in for a real server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	client := goredis.NewClient(&goredis.Options{
		Addr:                  server.Addr(),
		MaxRetries:            -1,   // required: an operation must not have effect twice
		ContextTimeoutEnabled: true, // required: an operation has a time limit
	})
	defer client.Close()

	ctx := context.Background()
	s, err := redis.New(ctx, client, &redis.Options{Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	if _, err := s.Create(ctx, "session/1", []byte("open"), 0); err != nil {
		log.Fatal(err)
	}
	item, err := s.Get(ctx, "session/1")
	fmt.Println(string(item.Value), err)
	// Output: open <nil>
}
