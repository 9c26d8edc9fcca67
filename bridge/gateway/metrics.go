package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/internal/frontend"
)

// maxSeries bounds the counters of [Metrics].
const maxSeries = 10_000

// Counters are sums by name and labels. Add adds n, which is not negative, to a counter that
// begins at 0. It is called concurrently, on the goroutines of calls, and must not block.
type Counters interface {
	Add(name string, n float64, labels ...Label)
}

// A Label is one of a counter's.
type Label struct{ Name, Value string }

// Metrics are counters in memory, and the handler that shows them to Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats, text format 0.0.4). It has no
// access control of its own: put it behind an [Access]. There are at most 10,000 counters:
// what would be one more is counted as dovetail_metrics_dropped_total. The zero value is ready,
// and may be used concurrently.
type Metrics struct {
	mu      sync.Mutex
	series  map[string]*series // by name and labels, as they are shown
	dropped float64
}

type series struct {
	name  string
	value float64
}

// Add adds to a counter.
func (m *Metrics) Add(name string, n float64, labels ...Label) {
	var buffer [256]byte
	key := append(buffer[:0], name...)
	for i, label := range labels {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		key = append(append(append(key, separator), label.Name...), `="`...)
		key = append(appendLabel(key, label.Value), '"')
	}
	if len(labels) > 0 {
		key = append(key, '}')
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.series[string(key)]
	switch {
	case s != nil:
	case len(m.series) >= maxSeries:
		m.dropped++
		return
	default:
		if m.series == nil {
			m.series = make(map[string]*series)
		}
		s = &series{name: name}
		m.series[string(key)] = s
	}
	s.value += n
}

// appendLabel appends a label's value with the escapes of the text format.
func appendLabel(dst []byte, value string) []byte {
	for _, c := range []byte(strings.ToValidUTF8(value, "\uFFFD")) {
		switch c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// ServeHTTP writes all counters, in the order of their names.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	frontend.Write(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", m.text())
}

func (m *Metrics) text() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := make(map[string][]byte) // by names of counters
	for _, key := range slices.Sorted(maps.Keys(m.series)) {
		s := m.series[key]
		lines[s.name] = appendSample(lines[s.name], key, s.value)
	}
	if m.dropped > 0 {
		const name = "dovetail_metrics_dropped_total"
		lines[name] = appendSample(nil, name, m.dropped)
	}
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		out = append(append(append(out, "# TYPE "...), name...), " counter\n"...)
		out = append(out, lines[name]...)
	}
	return out
}

func appendSample(dst []byte, key string, value float64) []byte {
	dst = append(append(dst, key...), ' ')
	return append(strconv.AppendFloat(dst, value, 'g', -1, 64), '\n')
}
