package approval_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/mcp"
)

// openJournal opens a journal, and closes it when the test ends.
func openJournal(t testing.TB, path string) *approval.FileJournal {
	t.Helper()
	j, err := approval.OpenJournal(path, approvaltests.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// entries reads the lines of a journal.
func entries(t testing.TB, path string) (list []approval.Entry) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e approval.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

func events(t testing.TB, path string) (list []string) {
	t.Helper()
	for _, e := range entries(t, path) {
		list = append(list, e.Event)
	}
	return list
}

func entry(event string, id string) approval.Entry {
	e := approval.Entry{Event: event, ID: id, Digest: approval.Digest{1}}
	if event == "asked" {
		e.Server, e.Tool, e.Deadline = "files", "write", time.Now().Add(time.Minute)
	}
	return e
}

// TestJournalOrder: invalid transitions are refused.
func TestJournalOrder(t *testing.T) {
	a, y, x, done := "asked", "approved", "executing", "executed"
	for _, test := range []struct {
		events []string
		ok     bool // of the last one
	}{
		{[]string{a, y, x, done}, true},
		{[]string{a, y, x, "failed"}, true},
		{[]string{a, "rejected"}, true},
		{[]string{a, "expired"}, true},
		{[]string{a, y, "withdrawn"}, true},
		{[]string{y}, false},
		{[]string{x}, false},
		{[]string{done}, false},
		{[]string{a, a}, false},
		{[]string{a, x}, false},
		{[]string{a, done}, false},
		{[]string{a, y, y}, false},
		{[]string{a, y, done}, false},
		{[]string{a, y, x, x}, false},
		{[]string{a, y, x, y}, false},
		{[]string{a, y, x, "rejected"}, false},
		{[]string{a, y, x, done, x}, false},
		{[]string{a, "rejected", x}, false},
		{[]string{a, "expired", y}, false},
		{[]string{a, "x"}, false},
	} {
		j := openJournal(t, filepath.Join(t.TempDir(), "journal"))
		for i, event := range test.events {
			err := j.Append(entry(event, "1"))
			if want := test.ok || i < len(test.events)-1; (err == nil) != want {
				t.Errorf("%v: entry %d: error %v", test.events, i, err)
			}
		}
	}
	j := openJournal(t, filepath.Join(t.TempDir(), "journal"))
	late := entry(a, "1")
	late.Deadline = time.Now()
	for _, e := range []approval.Entry{late, entry(y, "1")} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if j.Append(entry(x, "1")) == nil {
		t.Error("an approval was used after it had expired")
	}
	for _, e := range []approval.Entry{entry(a, "2"), entry(y, "2")} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	other := entry(x, "2")
	other.Digest = approval.Digest{2}
	if j.Append(other) == nil {
		t.Error("an approval of one thing was used for another")
	}
}

// TestJournalRestart: requests that were open when a process ended are recorded as ended.
func TestJournalRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for id, list := range map[string][]string{
		"asked":     {"asked"},
		"approved":  {"asked", "approved"},
		"executing": {"asked", "approved", "executing"},
	} {
		for _, event := range list {
			if err := j.Append(entry(event, id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s, err := approval.Verify(path); err != nil || !slices.Equal(s.Open, []string{"approved", "asked", "executing"}) || s.Entries != 6 {
		t.Errorf("Verify: %+v, %v", s, err)
	}
	j.Close() // as if the process had ended
	again := openJournal(t, path)
	var ends []string
	for _, e := range entries(t, path)[6:] {
		ends = append(ends, e.ID+" "+e.Event)
	}
	if want := []string{"approved withdrawn", "asked withdrawn", "executing failed"}; !slices.Equal(ends, want) {
		t.Errorf("the journal goes on with %q, want %q", ends, want)
	}
	for _, id := range []string{"asked", "approved", "executing"} {
		if again.Append(entry("executing", id)) == nil {
			t.Errorf("%s: executed after a restart", id)
		}
	}
	if s, err := approval.Verify(path); err != nil || len(s.Open) != 0 {
		t.Errorf("Verify: %+v, %v", s, err)
	}
}

// written returns the text of a journal with two requests.
func written(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for i := range 2 {
		e := entry("asked", fmt.Sprint(i))
		e.Arguments = "{\"a\":\"\u2028<\"}"
		for _, e := range []approval.Entry{e, entry("approved", fmt.Sprint(i)), entry("executing", fmt.Sprint(i)), entry("executed", fmt.Sprint(i))} {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestJournalDamage: a line that is changed, removed, added or moved is detected.
func TestJournalDamage(t *testing.T) {
	text := written(t)
	path := filepath.Join(t.TempDir(), "journal")
	broken := func(name string, damaged []byte) {
		t.Helper()
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := approval.Verify(path); !errors.Is(err, approval.ErrBroken) {
			t.Errorf("%s: Verify: %+v, %v", name, s, err)
		}
		if strings.HasPrefix(name, "bit") {
			return // too many, and OpenJournal reads in the same way
		}
		if _, err := approval.OpenJournal(path, approvaltests.Quiet()); !errors.Is(err, approval.ErrBroken) {
			t.Errorf("%s: OpenJournal: %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, damaged) {
			t.Errorf("%s: a broken journal was changed", name)
		}
	}
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for at := range text[:last] {
		damaged := bytes.Clone(text)
		damaged[at] ^= 1
		broken(fmt.Sprintf("bit of byte %d", at), damaged)
		if t.Failed() {
			return
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines[:len(lines)-1] {
		broken(fmt.Sprint("without line ", i), bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
		broken(fmt.Sprint("twice line ", i), bytes.Join(slices.Insert(slices.Clone(lines), i, lines[i]), nil))
		swapped := slices.Clone(lines)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		broken(fmt.Sprint("moved line ", i), bytes.Join(swapped, nil))
	}
	broken("a long line", append(bytes.Repeat([]byte("x"), 1<<20+1), '\n'))
	broken("an empty line", append(bytes.Clone(text), '\n'))
	broken("spaces in the last line", append(bytes.Clone(text[:last]), bytes.Replace(text[last:], []byte(`,"`), []byte(`, "`), 1)...))
	broken("spaces", bytes.Replace(text, []byte(`{"seq"`), []byte(`{ "seq"`), 1))
	broken("another member", bytes.Replace(text, []byte(`{"seq"`), []byte(`{"x":1,"seq"`), 1))
}

// TestJournalForeignWrite: after another program has written to the file, every Append fails.
func TestJournalForeignWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	if err := j.Append(entry("asked", "1")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := j.Append(entry("asked", "2")); !errors.Is(err, approval.ErrBroken) {
			t.Errorf("the error is %v, want ErrBroken", err)
		}
	}
}

// TestJournalInUse: an open journal cannot be opened again, in this or another process, and its
// requests stay open.
func TestJournalInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if from := os.Getenv("DOVETAIL_TEST_JOURNAL"); from != "" { // the other process
		if _, err := approval.OpenJournal(from, nil); !errors.Is(err, approval.ErrInUse) {
			t.Errorf("the error of another process is %v", err)
		}
		return
	}
	j := openJournal(t, path)
	if err := j.Append(entry("asked", "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := approval.OpenJournal(path, nil); !errors.Is(err, approval.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error is %v", err)
	}
	other := exec.Command(os.Args[0], "-test.run=^TestJournalInUse$")
	other.Env = append(os.Environ(), "DOVETAIL_TEST_JOURNAL="+path)
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if summary, err := approval.Verify(path); err != nil || !slices.Equal(summary.Open, []string{"1"}) {
		t.Errorf("open are %q: %v", summary.Open, err)
	}
	if err := errors.Join(j.Append(entry("approved", "1")), j.Close()); err != nil {
		t.Error(err)
	}
	openJournal(t, path)
}

// TestJournalClose: a second Close does nothing, and Append fails.
func TestJournalClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Error(err)
	}
	if err := j.Append(entry("asked", "1")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, error %v", info.Mode(), err)
	}
	if _, err := approval.OpenJournal(filepath.Join(path, "x"), nil); err == nil {
		t.Error("a journal below a file was opened")
	}
	if _, err := approval.Verify(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

// TestJournalOfAGuard: the journal has all events, and the arguments only with RecordArguments.
func TestJournalOfAGuard(t *testing.T) {
	for _, record := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal")
		o := approvaltests.Options(nil)
		o.Journal, o.RecordArguments = openJournal(t, path), record
		var f approvaltests.Tool
		if _, err := approvaltests.Gated(&f, approvaltests.Says(yes, nil), o)(t.Context(), approvaltests.NewCall(t, "anna", "write", `{ "password":"p\u0000"}`, nil)); err != nil {
			t.Fatal(err)
		}
		if got := events(t, path); !slices.Equal(got, []string{"asked", "approved", "executing", "executed"}) {
			t.Errorf("the journal has %q", got)
		}
		asked := entries(t, path)[0]
		if (asked.Arguments == `{ "password":"p\u0000"}`) != record || (asked.Arguments == "") == record || asked.Caller != "anna" {
			t.Errorf("the request was recorded as %+v", asked)
		}
	}
}

// TestJournalFails: if any Append fails, no call runs that is not recorded as approved and
// executing, and none runs twice.
func TestJournalFails(t *testing.T) {
	all := []string{"asked", "approved", "executing", "executed"}
	for i, event := range all {
		for _, how := range []string{"error", "panic"} {
			t.Run(event+" "+how, func(t *testing.T) {
				d := approvaltests.MemoryJournal{Fails: func(e approval.Entry) error {
					if e.Event != event {
						return nil
					}
					if how == "panic" {
						panic("disk")
					}
					return errors.New("disk full")
				}}
				var f approvaltests.Tool
				_, err := approvaltests.Gated(&f, approvaltests.Says(yes, nil), approvaltests.Options(&d))(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, nil))
				executed := event == "executed"
				if (len(f.Ran()) == 1) != executed || (err == nil) != executed {
					t.Errorf("%d executions, error %v", len(f.Ran()), err)
				}
				if !executed {
					approvaltests.WantCode(t, err, approval.Failed)
				}
				if got := d.Events(); !slices.Equal(got[:i], all[:i]) {
					t.Errorf("the journal has %v", got)
				}
			})
		}
	}
}

// TestKilled: a process that is killed at any step leaves a correct journal. The test copies the
// file at that step.
func TestKilled(t *testing.T) {
	for step, want := range map[string]string{
		"asked":     "asked withdrawn",
		"approved":  "asked approved withdrawn",
		"executing": "asked approved executing failed",
		"executed":  "asked approved executing executed",
	} {
		path, copied := filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "copy")
		j := openJournal(t, path)
		o := approvaltests.Options(nil)
		ran := false
		o.Journal = &tapped{j, func(e approval.Entry) {
			if e.Event != step {
				return
			}
			if ran != (step == "executed") {
				t.Errorf("%s: executed: %t", step, ran)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copied, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}}
		f := &approvaltests.Tool{Then: func(context.Context, *mcp.Call) (mcp.Result, error) {
			ran = true
			return mcp.Raw(`{}`), nil
		}}
		if _, err := approvaltests.Gated(f, approvaltests.Says(yes, nil), o)(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, nil)); err != nil {
			t.Fatal(err)
		}
		openJournal(t, copied)
		if got := strings.Join(events(t, copied), " "); got != want {
			t.Errorf("%s: the journal has %q, want %q", step, got, want)
		}
	}
}

// tapped calls a function after each written entry.
type tapped struct {
	approval.Journal
	tap func(e approval.Entry)
}

func (j *tapped) Append(e approval.Entry) error {
	err := j.Journal.Append(e)
	if err == nil {
		j.tap(e)
	}
	return err
}

// TestJournalTakesAnyText: Verify and OpenJournal can read entries with any text.
func TestJournalTakesAnyText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := approval.OpenJournal(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	entries := int64(0)
	add := func(e approval.Entry) {
		t.Helper()
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
		entries++
	}
	for i, text := range testsuites.HostileText(t) {
		e := approval.Entry{Event: "asked", ID: strconv.Itoa(i) + text, Digest: sha256.Sum256([]byte(text)), Deadline: time.Now().Add(time.Hour)}
		v := reflect.ValueOf(&e).Elem()
		for field, value := range v.Fields() {
			if field.Type.Kind() == reflect.String && field.Name != "ID" && field.Name != "Event" {
				value.SetString(text)
			}
		}
		add(e)
		add(approval.Entry{Event: "rejected", ID: e.ID, Digest: e.Digest, By: text, Reason: text})
	}
	if err := j.Append(approval.Entry{Event: "\xff", ID: "\xff"}); err == nil {
		t.Error("an unknown event was accepted")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	summary, err := approval.Verify(path)
	if err != nil || summary.Entries != entries || summary.Torn != 0 || len(summary.Open) != 0 {
		t.Fatalf("got %+v, %v of %d entries", summary, err, entries)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "r\uFFFDpertoire") {
		t.Errorf("an invalid byte is not replaced by U+FFFD: %v", err)
	}
	again, err := approval.OpenJournal(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
