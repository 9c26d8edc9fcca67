package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if done, err := runRole(ctx); done || err != nil {
		exit(err)
	}
	quiet()
	m := newMatrix()
	table, err := m.markdown(ctx)
	m.Close()
	fmt.Print(table)
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
