package approval_test

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/suites"
)

// hostileTexts are those of the suite, and some that JSON cannot hold.
func hostileTexts(t *testing.T) []string {
	texts := []string{
		"r\xe9pertoire", "\xff", "\xc0\x80", "\xed\xa0\x80", "a\xf0\x9f\x98", "\xef\xbf\xbd", "\uFFFD", "\x00", "\n", "\r\n", "\u2028", "<&>", `\ufffd`, "\x7f", `"`,
	}
	if dir, ok := suites.Dir(t, "names"); ok {
		text, err := os.ReadFile(filepath.Join(dir, "blns.json"))
		var more []string
		if err == nil {
			err = json.Unmarshal(text, &more)
		}
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, more...)
	}
	return texts
}

// Whatever is appended can be read again: by Verify, and by the next process.
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
	for i, text := range hostileTexts(t) {
		e := approval.Entry{Event: approval.EventAsked, ID: strconv.Itoa(i) + text, Digest: sha256.Sum256([]byte(text)), Deadline: time.Now().Add(time.Hour)}
		v := reflect.ValueOf(&e).Elem()
		for field, value := range v.Fields() {
			if field.Type.Kind() == reflect.String && field.Name != "ID" && field.Name != "Event" {
				value.SetString(text)
			}
		}
		add(e)
		add(approval.Entry{Event: approval.EventRejected, ID: e.ID, Digest: e.Digest, By: text, Reason: text})
	}
	if err := j.Append(approval.Entry{Event: "\xff", ID: "\xff"}); err == nil {
		t.Error("an event that there is not was taken")
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
		t.Errorf("a byte that is no text is not shown as U+FFFD: %v", err)
	}
	again, err := approval.OpenJournal(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
