package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
	"github.com/dovetail-go/dovetail/transport"
)

func ExampleOpen() {
	folder, err := os.MkdirTemp("", "memory")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "memory.db")

	ctx := context.Background()
	for range 2 { // the second time, the file exists
		store, err := sqlite.Open(ctx, path, nil)
		if err != nil {
			log.Fatal(err)
		}
		session, err := client.Connect(ctx, transport.Pipe(memory.New(store, nil)), nil) // or: stdio.Serve(ctx, s, nil)
		if err != nil {
			log.Fatal(err)
		}
		facts, err := client.CallAs[[]memory.Record](ctx, session, "get_user_facts", map[string]string{"user_id": "ann"}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("facts about ann:", facts)
		_, err = session.CallTool(ctx, "save_user_fact", map[string]string{"user_id": "ann", "key": "city", "value": "Oslo"}, nil)
		if err != nil {
			log.Fatal(err)
		}
		session.Close()
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// facts about ann: []
	// facts about ann: [{city Oslo}]
}
