package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Try is [Bridge.Update] for a bridge that runs, if all new servers can be started, except
// for lazy ones with a cached catalog: otherwise the error says why not, and nothing has
// changed. It is also an error that one of them makes [Bridge.Run] fail. The new ones are
// started before the old ones are stopped, so for a while a server may run twice, as it was
// and as it will be. Clients are told of the change once.
func (b *Bridge) Try(ctx context.Context, configs ...Config) error {
	if err := check(configs); err != nil {
		return err
	}
	b.update.Lock()
	defer b.update.Unlock()
	before, offered := *b.members.Load(), b.Catalog()
	members, added := b.successors(before, configs)
	b.mu.Lock()
	running := b.running != nil
	for _, m := range added {
		b.launch(m)
	}
	b.mu.Unlock()
	if !running {
		return errors.New("bridge: it does not run")
	}
	err := waitAll(ctx, added)
	if err == nil {
		err = checkNames(b.merged.Load(), members)
	}
	if err != nil {
		stopAll(added)
		return err
	}
	b.members.Store(&members)
	stopAll(without(before, members))
	for _, change := range changes(offered, b.Catalog()) {
		b.tell(change)
	}
	return nil
}

// successors are the members for configs: those that there are, as far as they are still
// the same, and new ones, which are added.
func (b *Bridge) successors(before []*member, configs []Config) (members, added []*member) {
	for _, config := range configs {
		at := slices.IndexFunc(before, func(m *member) bool { return m.isStill(config) })
		if at < 0 {
			m := b.newMember(config)
			members, added = append(members, m), append(added, m)
			continue
		}
		members = append(members, before[at])
	}
	return members, added
}

// without are the members that are not among others.
func without(members, others []*member) []*member {
	return slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return slices.Contains(others, m) })
}

// waitAll waits until all have been started, but for lazy ones.
func waitAll(ctx context.Context, members []*member) error {
	failures := make([]error, len(members))
	var learning sync.WaitGroup
	for i, m := range members {
		learning.Go(func() {
			if m.pool.main.sleeps {
				return
			}
			wait := m.waitReady
			if m.config.Required {
				wait = m.waitConfigured
			}
			if err := wait(ctx); err != nil {
				failures[i] = fmt.Errorf("bridge: the server %q: %w", m.config.Alias, err)
			}
		})
	}
	learning.Wait()
	return errors.Join(failures...)
}

// stopAll stops members, all at once.
func stopAll(members []*member) {
	var stopping sync.WaitGroup
	for _, m := range members {
		if m.stop != nil {
			stopping.Go(m.stop)
		}
	}
	stopping.Wait()
}
