package channel_test

import (
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A request whose record was changed in the store is not approved. An equal call asks again, and other requests go on.
func TestForgedRequests(t *testing.T) {
	for name, forge := range map[string]func(value []byte) []byte{
		"half":            func(value []byte) []byte { return value[:len(value)/2] },
		"empty":           func([]byte) []byte { return nil },
		"a later version": func([]byte) []byte { return []byte(`{"version":99,"value":{"decision":{"approved":true}}}`) },
		"another type":    func([]byte) []byte { return []byte(`{"version":1,"value":[]}`) },
	} {
		t.Run(name, func(t *testing.T) {
			sharing(t, 2, func(t *testing.T, shared store.Store, replicas []*replica) {
				person := replicas[1].connect(t, "dovetail.approval.v1")
				forged := replicas[0].askWith(t.Context(), numbered("forged", 1))
				person.asked(t)
				_, item := recordOf(t, shared)
				good := replicas[0].askWith(t.Context(), numbered("good", 2))
				person.asked(t)
				if _, err := shared.Update(t.Context(), item.Key, forge(item.Value), item.Revision, time.Hour); err != nil {
					t.Fatal(err)
				}
				wantError(t, forged, approval.Lost, "")
				person.lastWord(t, "forged")
				person.say(t, answerOf("forged", true))
				if q := person.lastWord(t, "forged"); q.Method != "refused" {
					t.Errorf("the decision about the forged request: %+v, want that it is refused", q)
				}
				person.say(t, answerOf("good", true))
				wantApproved(t, good, true)
				again := replicas[0].askWith(t.Context(), numbered("again", 1))
				if q := person.asked(t); q.ID != "again" {
					t.Errorf("the person is asked %+v", q)
				}
				person.say(t, answerOf("again", true))
				wantApproved(t, again, true)
			})
		})
	}
}
