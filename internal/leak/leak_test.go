package leak

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestRunPassesWhenNothingIsLeft(t *testing.T) {
	var report bytes.Buffer
	if code := run(func() int { return 0 }, &report, time.Minute); code != 0 {
		t.Fatalf("code %d, report:\n%s", code, &report)
	}
}

func TestRunWaitsForGoroutinesThatEnd(t *testing.T) {
	tests := func() int {
		timer := time.NewTimer(20 * time.Millisecond)
		go func() { <-timer.C }()
		return 0
	}
	var report bytes.Buffer
	if code := run(tests, &report, time.Minute); code != 0 {
		t.Fatalf("code %d, report:\n%s", code, &report)
	}
}

func TestRunReportsWhatIsLeft(t *testing.T) {
	release := make(chan struct{})
	ended := make(chan struct{})
	defer func() { close(release); <-ended }()
	tests := func() int {
		go stayBehind(release, ended)
		return 0
	}
	var report bytes.Buffer
	if code := run(tests, &report, 10*time.Millisecond); code != 1 {
		t.Fatalf("code %d, want 1", code)
	}
	for _, want := range []string{"1 goroutines outlive", "stayBehind"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &report)
		}
	}
}

func TestRunKeepsTheCodeOfFailedTests(t *testing.T) {
	release := make(chan struct{})
	ended := make(chan struct{})
	defer func() { close(release); <-ended }()
	tests := func() int {
		go stayBehind(release, ended)
		return 7
	}
	var report bytes.Buffer
	if code := run(tests, &report, 0); code != 7 || report.Len() != 0 {
		t.Fatalf("code %d, report %q, want 7 and nothing", code, &report)
	}
}

func stayBehind(release, ended chan struct{}) {
	<-release
	close(ended)
}
