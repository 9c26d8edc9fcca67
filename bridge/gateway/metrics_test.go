package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
)

func shownBy(m *gateway.Metrics) string {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	var m gateway.Metrics
	if shown := shownBy(&m); shown != "" {
		t.Errorf("nothing is shown as %q", shown)
	}
	m.Add("b_total", 1, gateway.Label{Name: "tool", Value: "a\"b\\c\nd\xff"})
	m.Add("b_total", 0.5, gateway.Label{Name: "tool", Value: ""}, gateway.Label{Name: "x", Value: "y"})
	m.Add("b_total", 0.25, gateway.Label{Name: "tool", Value: ""}, gateway.Label{Name: "x", Value: "y"})
	m.Add("b", 1e21)
	m.Add("a_total", 0)
	want := "# TYPE a_total counter\na_total 0\n" +
		"# TYPE b counter\nb 1e+21\n" +
		"# TYPE b_total counter\nb_total{tool=\"\",x=\"y\"} 0.75\nb_total{tool=\"a\\\"b\\\\c\\nd\uFFFD\"} 1\n"
	if shown := shownBy(&m); shown != want {
		t.Errorf("shown is\n%s\nwant\n%s", shown, want)
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestMetricsAreBounded: however many labels there are.
func TestMetricsAreBounded(t *testing.T) {
	var m gateway.Metrics
	for i := range 10_000 + 7 {
		m.Add("x_total", 1, gateway.Label{Name: "i", Value: strconv.Itoa(i)})
	}
	shown := shownBy(&m)
	if n := strings.Count(shown, "x_total{"); n != 10_000 || !strings.Contains(shown, "\ndovetail_metrics_dropped_total 7\n") {
		t.Errorf("%d series are shown", n)
	}
}

func TestMetricsConcurrently(t *testing.T) {
	var m gateway.Metrics
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for range 1000 {
				m.Add("x_total", 1, gateway.Label{Name: "i", Value: fmt.Sprint(i % 2)})
			}
			shownBy(&m)
		})
	}
	all.Wait()
	if shown := shownBy(&m); !strings.Contains(shown, `x_total{i="0"} 5000`) || !strings.Contains(shown, `x_total{i="1"} 5000`) {
		t.Errorf("shown is %s", shown)
	}
}
