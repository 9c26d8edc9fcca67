package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Delays between two attempts to connect.
	minConnectDelay = 50 * time.Millisecond
	maxConnectDelay = time.Second
	// subscribeChunk is how many channels one command subscribes to.
	subscribeChunk = 1000
	// connectedToken is the payload of the ping that follows the first subscriptions of a
	// connection.
	connectedToken = "connected"
	// reconnectTime is the time after a new connection in which other stores may not have
	// connected again.
	reconnectTime = 5 * time.Second
)

// errConnectionLost is the error of a subscription whose connection has failed.
var errConnectionLost = errors.New("redis: the connection was lost")

// errReconnecting is the error of a request without a subscriber, which may connect again soon.
var errReconnecting = errors.New("redis: the connection was lost, and the subscriber may not have connected again")

// A listener receives the messages of a channel. Its methods are called one after the other
// and must not block.
type listener interface {
	message(payload string)
	// interrupted is called when the subscription has effect again. Messages since a time may
	// have been lost.
	interrupted(since time.Time)
}

// A hub subscribes to channels for all listeners of a store, on one connection. A new
// connection replaces one that fails.
type hub struct {
	engine  *engine
	timeout time.Duration
	logger  *slog.Logger
	own     string        // the channel that is always subscribed
	changes chan struct{} // has a value while a goroutine sends subscriptions

	mu        sync.Mutex
	conn      *connection   // nil while there is none
	connected chan struct{} // closed while conn is not nil
	listeners map[string]map[listener]bool
	pongs     map[string]chan struct{} // by token
	tokens    uint64
	worked    bool      // a connection has been established
	failure   error     // why the last connection failed
	replaced  time.Time // when a connection took the place of another
}

// A connection is one connection of a hub.
type connection struct {
	pubsub *redis.PubSub
	heard  atomic.Int64  // time of the last message, in nanoseconds since 1970
	lost   chan struct{} // closed when the connection has failed
}

func newHub(engine *engine, timeout time.Duration, logger *slog.Logger, own string, l listener) *hub {
	return &hub{
		engine:    engine,
		timeout:   timeout,
		logger:    logger,
		own:       own,
		changes:   make(chan struct{}, 1),
		connected: make(chan struct{}),
		listeners: map[string]map[listener]bool{own: {l: true}},
		pongs:     map[string]chan struct{}{},
	}
}

// run connects until ctx ends.
func (h *hub) run(ctx context.Context) {
	since, delay := time.Now(), minConnectDelay
	for ctx.Err() == nil {
		c, err := h.connect(ctx)
		if err == nil {
			var worked bool
			if worked, err = h.receive(ctx, c, since); worked {
				delay = minConnectDelay
				if ctx.Err() == nil {
					h.logger.Warn("redis: the connection for subscriptions was lost", "error", err)
				}
			}
			since = time.Unix(0, c.heard.Load())
		}
		h.engine.failed(ctx, err)
		h.mu.Lock()
		h.failure = err
		h.mu.Unlock()
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
		delay = min(2*delay, maxConnectDelay)
	}
}

// connect subscribes to all channels on a new connection.
func (h *hub) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	if err := h.lockChanges(ctx); err != nil {
		return nil, err
	}
	defer h.unlockChanges()
	h.mu.Lock()
	channels := slices.Collect(maps.Keys(h.listeners))
	h.mu.Unlock()
	client, err := h.engine.node(ctx)
	if err != nil {
		return nil, err
	}
	c := &connection{pubsub: client.Subscribe(ctx), lost: make(chan struct{})}
	c.heard.Store(time.Now().UnixNano())
	for chunk := range slices.Chunk(channels, subscribeChunk) {
		if err := c.pubsub.Subscribe(ctx, chunk...); err != nil {
			c.pubsub.Close()
			return nil, err
		}
	}
	if err := c.pubsub.Ping(ctx, connectedToken); err != nil {
		c.pubsub.Close()
		return nil, err
	}
	checkEviction(ctx, client, h.logger) // it may be another server, such as a new primary
	return c, nil
}

// receive passes messages to the listeners until the connection fails, and reports whether it
// has ever worked. since is when the connection before it failed.
func (h *hub) receive(ctx context.Context, c *connection, since time.Time) (worked bool, err error) {
	var checking sync.WaitGroup
	checking.Go(func() { h.check(ctx, c) })
	defer checking.Wait()
	defer h.lose(c)
	subscribed := false
	for {
		message, err := c.pubsub.Receive(ctx)
		if err != nil {
			return worked, err
		}
		c.heard.Store(time.Now().UnixNano())
		switch m := message.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" && m.Channel == h.own {
				if subscribed { // the client has replaced the connection on its own
					return worked, errConnectionLost
				}
				subscribed = true
			}
		case *redis.Message:
			if worked { // listeners treat earlier ones as lost
				for _, l := range h.of(m.Channel) {
					l.message(m.Payload)
				}
			}
		case *redis.Pong:
			if m.Payload == connectedToken && !worked {
				worked = true
				h.establish(c, since)
			} else {
				h.pong(m.Payload)
			}
		}
	}
}

// check closes a connection on which nothing arrives.
func (h *hub) check(ctx context.Context, c *connection) {
	defer c.pubsub.Close() // ends Receive
	ticker := time.NewTicker(h.timeout)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-c.lost:
			return
		case <-ctx.Done():
			return
		}
		if time.Since(time.Unix(0, c.heard.Load())) > 2*h.timeout {
			return
		}
		limited, cancel := context.WithTimeout(ctx, h.timeout)
		err := c.pubsub.Ping(limited)
		if client, failed := h.engine.node(limited); err == nil && failed == nil {
			_ = h.verify(limited, client, c) // the connection may be good while the client fails
		}
		h.engine.reload(limited)
		cancel()
		if err != nil {
			return
		}
	}
}

// verify closes a connection and returns an error if the client publishes on another server: on a
// new primary, or on the node that the slot was moved to.
func (h *hub) verify(ctx context.Context, client *redis.Client, c *connection) error {
	receivers, err := client.Publish(ctx, h.own, "").Result()
	if err != nil || receivers > 0 {
		return err
	}
	c.pubsub.Close()
	return errReconnecting
}

// settled returns an error if a subscriber that a client does not reach may connect again soon.
func (h *hub) settled(ctx context.Context, client *redis.Client) error {
	h.mu.Lock()
	c, replaced := h.conn, h.replaced
	h.mu.Unlock()
	if c == nil || time.Since(replaced) < reconnectTime {
		return errReconnecting
	}
	return h.verify(ctx, client, c)
}

// establish makes a connection available and informs the listeners.
func (h *hub) establish(c *connection, since time.Time) {
	h.mu.Lock()
	h.conn = c
	close(h.connected)
	again := h.worked
	if again {
		h.replaced = time.Now()
	}
	h.worked = true
	var all []listener
	for _, listeners := range h.listeners {
		all = slices.AppendSeq(all, maps.Keys(listeners))
	}
	h.mu.Unlock()
	if again {
		h.logger.Info("redis: the store is connected for subscriptions again")
	}
	for _, l := range all {
		l.interrupted(since)
	}
}

// lose gives up a connection.
func (h *hub) lose(c *connection) {
	close(c.lost)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == c {
		h.conn = nil
		h.connected = make(chan struct{})
	}
}

// await waits for a connection.
func (h *hub) await(ctx context.Context) (*connection, error) {
	for {
		h.mu.Lock()
		c, connected := h.conn, h.connected
		h.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-connected:
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			return nil, fmt.Errorf("redis: not connected for subscriptions: %w", cmp.Or(h.failure, ctx.Err()))
		}
	}
}

// of returns the listeners of a channel.
func (h *hub) of(channel string) []listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.listeners[channel]))
}

// pong ends the wait for a ping.
func (h *hub) pong(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if done := h.pongs[token]; done != nil {
		close(done)
		delete(h.pongs, token)
	}
}

// join subscribes a listener to a channel. It returns when the subscription has effect.
func (h *hub) join(ctx context.Context, channel string, l listener) error {
	c, err := h.await(ctx)
	if err != nil {
		return err
	}
	if err := h.lockChanges(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	first := len(h.listeners[channel]) == 0
	if first {
		h.listeners[channel] = map[listener]bool{}
	}
	h.listeners[channel][l] = true
	h.mu.Unlock()
	if first {
		err = c.send(c.pubsub.Subscribe(ctx, channel))
	}
	h.unlockChanges()
	if err == nil {
		err = h.sync(ctx, c)
	}
	if err != nil {
		h.leave(ctx, channel, l)
	}
	return err
}

// leave ends the subscription of a listener. It does not wait until the engine knows.
func (h *hub) leave(ctx context.Context, channel string, l listener) {
	h.changes <- struct{}{} // also after ctx has ended
	defer h.unlockChanges()
	h.mu.Lock()
	delete(h.listeners[channel], l)
	last := len(h.listeners[channel]) == 0
	if last {
		delete(h.listeners, channel)
	}
	c := h.conn
	h.mu.Unlock()
	if last && c != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.timeout)
		defer cancel()
		_ = c.send(c.pubsub.Unsubscribe(limited, channel)) // a connection that fails is replaced
	}
}

// sync waits until the engine has processed the subscriptions that were sent on a connection.
func (h *hub) sync(ctx context.Context, c *connection) error {
	done := make(chan struct{})
	h.mu.Lock()
	h.tokens++
	token := strconv.FormatUint(h.tokens, 10)
	h.pongs[token] = done
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.pongs, token)
		h.mu.Unlock()
	}()
	if err := c.send(c.pubsub.Ping(ctx, token)); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-c.lost:
		return errConnectionLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send closes a connection after an error of sending, since the client may have replaced it on
// its own, without some of the subscriptions.
func (c *connection) send(err error) error {
	if err != nil {
		c.pubsub.Close()
	}
	return err
}

func (h *hub) lockChanges(ctx context.Context) error {
	select {
	case h.changes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hub) unlockChanges() { <-h.changes }
