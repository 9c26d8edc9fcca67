//go:build soak

package nats_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// newestKeys is the number of keys of each writer in TestChangeOfNewestRevision.
const newestKeys = 30

// Tasks in a cluster. The store of each scenario is connected to another member than the store of the previous
// scenario. The test takes a minute.
func TestExecutionsOfTasksInCluster(t *testing.T) {
	t.Parallel()
	members := newCluster(t)
	prefix := unique()
	var next atomic.Int32
	tasktest.Run(t, 3*time.Second, func(t *testing.T, limits store.Limits) store.Store {
		opts := nats.Options{Limits: limits, Replicas: 3, Prefix: prefix()}
		createStreams(t, members[0].url(), opts)
		return connect(t, members[next.Add(1)%3].url(), &opts)
	})
}
