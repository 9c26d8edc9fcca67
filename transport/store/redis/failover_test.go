package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/internal/test/porttest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/redis"
)

// A store uses the primary that sentinels name, and the next one after the first has ended.
func TestSentinel(t *testing.T) {
	t.Parallel()
	primary, replica := fmt.Sprint(porttest.Free(t)), fmt.Sprint(porttest.Free(t))
	server := newServer(t, "--port", primary, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
	newServer(t, "--port", replica, "--bind", "127.0.0.1", "--replicaof", "127.0.0.1 "+primary)
	address := newSentinel(t, primary)
	client := func() goredis.UniversalClient {
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: "shop", SentinelAddrs: []string{address}, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		})
	}
	sentinel := goredis.NewSentinelClient(&goredis.Options{Addr: address})
	t.Cleanup(func() { sentinel.Close() })
	eventually(t, "the sentinel knows the replica", func() bool {
		replicas, err := sentinel.Replicas(t.Context(), "shop").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	t.Run("kit", func(t *testing.T) { kit(t, client) })
	t.Run("failover", func(t *testing.T) {
		testFailover(t, client, func() {
			if err := sentinel.Set(t.Context(), "shop", "down-after-milliseconds", "1000").Err(); err != nil {
				t.Fatal(err)
			}
			server.stop()
		})
	})
}

// newSentinel starts a sentinel for a primary and returns its address. It does not replace the
// primary by itself as long as its process runs, however slow the machine is.
func newSentinel(t *testing.T, primary string) (address string) {
	t.Helper()
	s, port := prepare(t), fmt.Sprint(porttest.Free(t))
	file := filepath.Join(s.dir, "sentinel.conf")
	config := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor shop 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds shop 600000\n", port, s.dir, primary)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args, s.ready = []string{file, "--sentinel"}, "Sentinel ID is"
	s.start()
	return "127.0.0.1:" + port
}

// A store uses the node of a cluster that has its keys, also after a replica has taken over. A user
// with the documented permissions can do so.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	t.Run("kit", func(t *testing.T) { kit(t, c.client) })
	for _, node := range c.nodes {
		setUser(t, node.client, append(documentedUser(t), "+cluster|slots", "+pubsub|numsub"))
	}
	c.user, c.password = "dovetail", "password"
	t.Run("planned failover", func(t *testing.T) {
		a, b := newStore(t, c.client(), nil), newStore(t, c.client(), &redis.Options{Timeout: 2 * time.Second})
		answer(t, b, "name")
		c.demote(t)
		// The subscriber may still be connected to the old primary, which a new store does not use.
		for _, s := range []*redis.Store{newStore(t, c.client(), nil), a} {
			request(t, s, "name")
		}
		if _, err := a.Request(t.Context(), "none", nil); err == nil {
			t.Error("Request without a subscriber succeeded")
		}
		eventually(t, "the subscriber is connected to the new primary", func() bool {
			channel := "{dovetail}:bus:name"
			counts, err := c.owner(t).client.PubSubNumSub(t.Context(), channel).Result()
			return err == nil && counts[channel] == 1
		})
	})
	t.Run("failover", func(t *testing.T) {
		testFailover(t, c.client, func() {
			c.setTimeout(t, "1000")
			c.owner(t).server.stop()
		})
	})
}

// A cluster has three primaries, and a replica of the one with the keys of the default prefix.
type cluster struct {
	nodes          []*clusterNode
	user, password string
}

type clusterNode struct {
	server  *server
	address string
	client  *goredis.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		port, bus := fmt.Sprint(porttest.Free(t)), fmt.Sprint(porttest.Free(t))
		node := &clusterNode{
			server: newServer(t, "--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", bus,
				"--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
			address: "127.0.0.1:" + port,
			client:  goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:" + port}),
		}
		t.Cleanup(func() { node.client.Close() })
		for _, other := range c.nodes {
			_, otherPort, _ := strings.Cut(other.address, ":")
			otherBus := other.server.args[slices.Index(other.server.args, "--cluster-port")+1]
			do(node.client.Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", otherPort, otherBus).Err())
		}
		c.nodes = append(c.nodes, node)
	}
	for i, first := range []int{0, 5000, 11000} {
		do(c.nodes[i].client.ClusterAddSlotsRange(t.Context(), first, []int{4999, 10999, 16383}[i]).Err())
	}
	replica := c.nodes[3].client
	slot, err := replica.ClusterKeySlot(t.Context(), "{dovetail}:counter").Result()
	do(err)
	id, err := c.nodes[slices.IndexFunc([]int64{5000, 11000, 16384}, func(end int64) bool { return slot < end })].client.ClusterMyID(t.Context()).Result()
	do(err)
	eventually(t, "the nodes know each other", func() bool { return replica.ClusterReplicate(t.Context(), id).Err() == nil })
	eventually(t, "the cluster is complete", func() bool {
		return !slices.ContainsFunc(c.nodes, func(node *clusterNode) bool {
			info, err := node.client.ClusterInfo(t.Context()).Result()
			ranges, rangesErr := node.client.Do(t.Context(), "CLUSTER", "SLOTS").Slice()
			known := 0
			for _, r := range ranges {
				parts, _ := r.([]any)
				known += len(parts) - 2 // after the first and the last slot
			}
			return err != nil || rangesErr != nil || !strings.Contains(info, "cluster_state:ok") || known != 4
		})
	})
	eventually(t, "the replica is connected", func() bool {
		return replica.InfoMap(t.Context(), "replication").Item("Replication", "master_link_status") == "up"
	})
	c.setTimeout(t, "600000") // so that no replica takes over while its primary runs, however slow the machine is
	return c
}

// setTimeout sets the time in milliseconds after which a replica takes over.
func (c *cluster) setTimeout(t *testing.T, ms string) {
	t.Helper()
	for _, node := range c.nodes {
		if err := node.client.ConfigSet(t.Context(), "cluster-node-timeout", ms).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// client returns a client of the cluster.
func (c *cluster) client() goredis.UniversalClient {
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{c.nodes[0].address, c.nodes[1].address, c.nodes[2].address}, Username: c.user, Password: c.password,
		DialerRetries: 1, ContextTimeoutEnabled: true,
	})
}

// owner returns the primary of the replicated part.
func (c *cluster) owner(t *testing.T) *clusterNode {
	t.Helper()
	for _, node := range c.nodes {
		if node.client.InfoMap(t.Context(), "replication").Item("Replication", "connected_slaves") == "1" {
			return node
		}
	}
	t.Fatal("no node has a replica")
	return nil
}

// demote makes the replica the primary, without an interruption of the connections.
func (c *cluster) demote(t *testing.T) {
	t.Helper()
	before := c.owner(t)
	for _, node := range c.nodes {
		if node.client.InfoMap(t.Context(), "replication").Item("Replication", "role") == "slave" {
			if err := node.client.ClusterFailover(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the roles are exchanged", func() bool {
		return before.client.InfoMap(t.Context(), "replication").Item("Replication", "master_link_status") == "up"
	})
}

// After its connection was replaced, a store does not say that there is no subscriber, since the
// subscribers may not have connected again.
func TestRequestAfterReconnection(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	messages := &logs{}
	s := connect(t, server.url(), &redis.Options{Logger: messages.logger()})
	if _, err := s.Request(t.Context(), "name", nil); !errors.Is(err, store.ErrNoResponder) {
		t.Errorf("Request: %v, want ErrNoResponder", err)
	}
	admin := goredis.NewClient(&goredis.Options{Addr: server.socket()})
	defer admin.Close()
	start := time.Now()
	if err := admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection is replaced", func() bool { return strings.Contains(messages.String(), "again") })
	_, err := s.Request(t.Context(), "name", nil)
	if err == nil || errors.Is(err, store.ErrNoResponder) && time.Since(start) < 5*time.Second {
		t.Errorf("Request after the connection was replaced: %v, want another error than ErrNoResponder", err)
	}
	eventually(t, "the end of the time to connect again", func() bool {
		_, err := s.Request(t.Context(), "name", nil)
		return errors.Is(err, store.ErrNoResponder)
	})
}

// answer subscribes to a subject and replies to requests with their data.
func answer(t *testing.T, s *redis.Store, subject string) {
	t.Helper()
	stop, err := s.Subscribe(t.Context(), subject, func(ctx context.Context, m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(ctx, m.Data) // Request shows whether it has arrived
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// request sends requests until one is answered. None may say that there is no subscriber.
func request(t *testing.T, s *redis.Store, subject string) {
	t.Helper()
	eventually(t, "a request", func() bool {
		reply, err := s.Request(t.Context(), subject, []byte("request"))
		if errors.Is(err, store.ErrNoResponder) {
			t.Fatalf("Request: %v, but there is one", err)
		}
		return err == nil && string(reply) == "request"
	})
}

// testFailover tests that stores go on after the primary has ended. kill ends it, and makes the engine
// replace it.
func testFailover(t *testing.T, client func() goredis.UniversalClient, kill func()) {
	ctx, cancel := context.WithCancel(t.Context())
	a, b := newStore(t, client(), nil), newStore(t, client(), nil)
	t.Cleanup(cancel) // before the stores are closed
	answer(t, b, "name")
	request(t, a, "name")
	revision, err := a.Create(ctx, "key", []byte("before"), 0)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 100)
	running := make(chan struct{}, 3)
	defer func() {
		cancel()
		for range 3 {
			<-running
		}
	}()
	follow := func(run func()) {
		go func() {
			defer func() { running <- struct{}{} }()
			run()
		}()
	}
	follow(func() {
		for entry, err := range b.Follow(ctx, "stream", 0) {
			if err == nil {
				events <- "entry " + string(entry.Data)
			}
		}
	})
	follow(func() {
		for item, err := range b.Watch(ctx, "key") {
			if err == nil {
				events <- "value " + string(item.Value)
			}
		}
	})
	follow(func() {
		if job, err := b.Pull(ctx, "queue"); err == nil {
			events <- "job " + job.ID
		}
	})
	await := func(wanted ...string) {
		t.Helper()
		for len(wanted) > 0 {
			event := <-events
			wanted = slices.DeleteFunc(wanted, func(want string) bool { return want == event })
		}
	}
	if _, err := a.Append(ctx, "stream", []byte("before")); err != nil {
		t.Fatal(err)
	}
	await("entry before", "value before")
	direct := client()
	defer direct.Close()
	waitForReplica(t, direct)

	kill()
	if _, err := a.Get(ctx, "key"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get without a primary: %v, want another error", err)
	}
	request(t, a, "name")
	eventually(t, "an update", func() bool {
		_, err := a.Update(ctx, "key", []byte("after"), revision, 0)
		return err == nil
	})
	if _, err := a.Append(ctx, "stream", []byte("after")); err != nil {
		t.Fatal(err)
	}
	if err := a.Push(ctx, "queue", "job", nil); err != nil {
		t.Fatal(err)
	}
	await("entry after", "value after", "job job")
}

// waitForReplica waits until the replica of the primary with the keys has received all writes.
func waitForReplica(t *testing.T, client goredis.UniversalClient) {
	t.Helper()
	node, _ := client.(*goredis.Client)
	if c, ok := client.(*goredis.ClusterClient); ok {
		var err error
		if node, err = c.MasterForKey(t.Context(), "{dovetail}:counter"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the replica has all writes", func() bool {
		info := node.InfoMap(t.Context(), "replication")
		_, offset, _ := strings.Cut(info.Item("Replication", "slave0"), "offset=")
		offset, _, _ = strings.Cut(offset, ",")
		return offset != "" && offset == info.Item("Replication", "master_repl_offset")
	})
}
