package approval_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
)

// A wall clock that is set back must not lengthen the time to answer: comparing
// times uses the monotonic clock only if both have a reading of it.
func TestDeadlineIsMonotonic(t *testing.T) {
	asked := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		for name, at := range map[string]time.Time{"created": r.Created, "deadline": r.Deadline} {
			if !strings.Contains(at.String(), " m=") {
				t.Errorf("%s has no monotonic reading: %s", name, at)
			}
			if at.Nanosecond()%int(time.Millisecond) != 0 {
				t.Errorf("%s is not in milliseconds: %s", name, at)
			}
		}
		return yes, nil
	})
	if _, err := gated(&tool{}, asked, options(nil))(t.Context(), newCall(t, "", "write", `{}`, nil)); err != nil {
		t.Error(err)
	}
}
