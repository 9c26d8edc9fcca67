package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"
)

// A rules is the file of alert rules.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) *rules {
	t.Helper()
	text, err := os.ReadFile("prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := &rules{}
	if err := yaml.UnmarshalStrict(text, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRunbook: the guide has one section for each alert, in the order of the rules, and each alert says how bad it is and what is wrong.
func TestRunbook(t *testing.T) {
	guide, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections, alerts []string
	for _, found := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllSubmatch(guide, -1) {
		sections = append(sections, string(found[1]))
	}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			alerts = append(alerts, rule.Alert)
			if severity := rule.Labels["severity"]; severity != "warning" && severity != "critical" || rule.Annotations["summary"] == "" {
				t.Errorf("%s has the severity %q and the summary %q", rule.Alert, severity, rule.Annotations["summary"])
			}
		}
	}
	if len(alerts) == 0 || !slices.Equal(sections, alerts) {
		t.Errorf("the guide has sections about %q, want %q", sections, alerts)
	}
}

// metricsOf returns the metrics of an expression, without its labels.
func metricsOf(expression string) []string {
	bare := regexp.MustCompile(`by \([^)]*\)|\{[^}]*\}`).ReplaceAllString(expression, "")
	return regexp.MustCompile(`\b(?:dovetail|mcp)_\w+`).FindAllString(bare, -1)
}

// TestMetricsExist: the program exports each metric of the rules, of the dashboard and of the guide.
func TestMetricsExist(t *testing.T) {
	exported := exportedMetrics(t)
	check := func(where string, metrics []string) {
		t.Helper()
		for _, metric := range metrics {
			if !exported[metric] {
				t.Errorf("%s: there is no metric %s", where, metric)
			}
		}
	}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			check(rule.Alert, metricsOf(rule.Expr))
		}
	}
	text, err := os.ReadFile("grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("the dashboard has %d panels: %v", len(dashboard.Panels), err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if len(metricsOf(target.Expr)) == 0 {
				t.Errorf("%s: %q has no metric", panel.Title, target.Expr)
			}
			check(panel.Title, metricsOf(target.Expr))
		}
	}
	guide, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile("`(dovetail_[a-z_]+)(?:\\{[^`]*\\})?`").FindAllSubmatch(guide, -1) {
		check("the guide", []string{string(found[1])})
	}
}

// exportedMetrics returns the names of the series that the program exports. Its server behind is the program, too.
func exportedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	path, folder := program(t), t.TempDir()
	empty, config := filepath.Join(folder, "empty.json"), filepath.Join(folder, "mcp.json")
	behind, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"behind": map[string]any{"command": path, "args": []string{"serve", "-config", empty}}}})
	if err == nil {
		err = errors.Join(os.WriteFile(config, behind, 0o600), os.WriteFile(empty, []byte(`{"mcpServers":{}}`), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, path, "serve", "-config", config, "-http", "127.0.0.1:0", "-open", "-store", filepath.Join(folder, "store"))
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address := serving(t, said)
	drained := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, said); close(drained) }()
	defer func() { cancel(); <-drained; _ = c.Wait() }()
	for _, path := range []string{"/api/v1/rest/tools", "/metrics"} {
		response, err := http.Get("http://" + address + path) //nolint:noctx // the program ends with the test
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", path, response.Status, err)
		}
		if path != "/metrics" {
			continue
		}
		names := make(map[string]bool)
		for line := range strings.Lines(string(text)) {
			if name := regexp.MustCompile(`^\w+`).FindString(line); name != "" {
				names[name] = true
				for _, suffix := range []string{"_bucket", "_count", "_sum"} { // the guide names a histogram without them
					if whole, ok := strings.CutSuffix(name, suffix); ok {
						names[whole] = true
					}
				}
			}
		}
		return names
	}
	return nil
}
