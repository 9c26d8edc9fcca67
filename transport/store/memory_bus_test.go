package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A subscriber receives the messages for which there is room. Missed is where others were.
func TestMemorySlowSubscriber(t *testing.T) {
	for name, test := range map[string]struct {
		size, fit int
	}{
		"by number": {1, maxWaiting},
		"by bytes":  {maxWaitingBytes / 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := open(t, nil)
				var got []string
				release := make(chan struct{})
				stop, err := m.Subscribe(t.Context(), "subject", func(_ context.Context, message Message) {
					if got = append(got, string(message.Data[:min(len(message.Data), 1)])); message.Missed {
						got[len(got)-1] = "missed"
					}
					<-release
				})
				if err != nil {
					t.Fatal(err)
				}
				publish := func(data string) {
					t.Helper()
					if err := m.Publish(t.Context(), "subject", []byte(strings.Repeat(data, test.size))); err != nil {
						t.Fatal(err)
					}
				}
				publish("0")
				synctest.Wait() // 0 is handled
				for range test.fit {
					publish("1")
				}
				publish("2")
				publish("2")
				release <- struct{}{}
				synctest.Wait() // the first 1 is handled
				if test.size > 1 {
					publish("3") // there is room
				}
				close(release)
				synctest.Wait()
				publish("4")
				synctest.Wait()
				want := "0" + strings.Repeat("1", test.fit) + "missed"
				if test.size > 1 {
					want += "3"
				}
				if want += "4"; strings.Join(got, "") != want {
					t.Errorf("the subscriber has received %.2000s, want %.2000s", strings.Join(got, ""), want)
				}
				stop()
			})
		})
	}
}

// A request without a reply fails after some time, and when there can be no reply.
func TestMemoryRequestTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(m *memory, stop func())
		want []error
	}{
		"nothing happens":       {func(*memory, func()) { pass(memoryTimeout - 1) }, []error{context.DeadlineExceeded}},
		"the store is closed":   {func(m *memory, _ func()) { _ = m.Close() }, []error{ErrClosed, ErrNoResponder}},
		"the subscription ends": {func(_ *memory, stop func()) { stop() }, []error{ErrNoResponder}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := open(t, nil)
				stop, err := m.Subscribe(t.Context(), "subject", func(context.Context, Message) {})
				if err != nil {
					t.Fatal(err)
				}
				begin, failed := time.Now(), make(chan error, 1)
				go func() {
					_, err := m.Request(t.Context(), "subject", nil)
					failed <- err
				}()
				synctest.Wait()
				test.end(m, stop)
				synctest.Wait()
				if len(failed) == 0 && time.Since(begin) == 0 {
					t.Error("Request goes on")
				}
				err = <-failed
				if !slices.ContainsFunc(test.want, func(want error) bool { return errors.Is(err, want) }) || time.Since(begin) > memoryTimeout {
					t.Errorf("Request returned after %v: %v", time.Since(begin), err)
				}
			})
		})
	}
}

// Subscriptions that have ended leave nothing.
func TestMemorySubscriptionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			stop, err := m.Subscribe(ctx, fmt.Sprint("subject", i%3), func(context.Context, Message) {})
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				stop()
			}
		}
		cancel()
		synctest.Wait()
		if len(m.bus) != 0 {
			t.Errorf("%d subjects have subscribers", len(m.bus))
		}
	})
}
