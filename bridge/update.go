package bridge

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Update makes the servers those of configs. One whose fingerprint is what it was goes on
// undisturbed; those that are gone, or different, are stopped, and then the others
// started. The error is as that of [New]; then everything is as it was.
func (b *Bridge) Update(configs ...Config) error {
	return b.replace(configs, func([]*member) error { return nil })
}

// Try is [Bridge.Update] for a bridge that runs, if all new servers can be started, except
// for lazy ones with a cached catalog: otherwise the error says why not, and nothing has
// changed. It is also an error that one of them makes [Bridge.Run] fail. The new ones are
// started before the old ones are stopped, so for a while a server may run twice, as it was
// and as it will be. Clients are told of the change once.
func (b *Bridge) Try(ctx context.Context, configs ...Config) error {
	return b.replace(configs, func(added []*member) error {
		if !b.launchAll(added) {
			return errors.New("bridge: it does not run")
		}
		return waitAll(added, func(m *member) error {
			if m.config.Required {
				return m.waitConfigured(ctx)
			}
			return m.waitReady(ctx)
		})
	})
}

// replace makes the servers those of configs, once those that are added have been prepared.
func (b *Bridge) replace(configs []Config, prepare func(added []*member) error) error {
	if err := check(configs); err != nil {
		return err
	}
	b.update.Lock()
	defer b.update.Unlock()
	before, offered := *b.members.Load(), b.Catalog()
	members, added := b.successors(before, configs)
	err := prepare(added)
	if err == nil {
		err = checkNames(b.merged.Load(), members)
	}
	if err != nil {
		stopAll(added)
		return err
	}
	b.mu.Lock()
	b.members.Store(&members)
	b.mu.Unlock()
	stopAll(slices.DeleteFunc(slices.Clone(before), func(m *member) bool { return slices.Contains(members, m) }))
	b.launchAll(added)
	for _, change := range changes(offered, b.Catalog()) {
		b.tell(change)
	}
	return nil
}

func (m *member) isStill(config Config) bool {
	return config.Fingerprint != "" && m.config.Alias == config.Alias && m.config.Fingerprint == config.Fingerprint &&
		m.config.Required == config.Required
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

// waitAll waits for members, all at once, except for lazy ones with a cached catalog.
func waitAll(members []*member, wait func(m *member) error) error {
	failures := make([]error, len(members))
	var waiting sync.WaitGroup
	for i, m := range members {
		if !m.pool.main.sleeps {
			waiting.Go(func() { failures[i] = wait(m) })
		}
	}
	waiting.Wait()
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
