package main

import (
	"context"
	"errors"
	"sync"
)

// A wireClient writes requests and waits for answers. One goroutine reads all the time,
// as it has to where a server may speak at any time. All answers are the same, so that
// it does not matter who gets which.
type wireClient struct {
	write   func() error // the request; many may do so at once
	answers chan error   // what is wrong with each
	ended   chan struct{}
	end     error // of reading
}

// newWireClient reads answers until read fails, which is to end when the connection is
// closed.
func newWireClient(write func() error, read func() (wrong, end error)) *wireClient {
	c := &wireClient{write: write, answers: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for {
			wrong, end := read()
			if end != nil {
				c.end = end
				return
			}
			c.answers <- wrong
		}
	}()
	return c
}

func (c *wireClient) Do(ctx context.Context) error {
	if err := c.write(); err != nil {
		return err
	}
	select {
	case err := <-c.answers:
		return err
	case <-c.ended:
		return errors.Join(errors.New("the connection has ended"), c.end)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits for the reading to end, after the connection has been closed.
func (c *wireClient) wait() error {
	<-c.ended
	return nil
}

// oneByOne is write for connections that take one message at a time.
func oneByOne(write func() error) func() error {
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		return write()
	}
}
