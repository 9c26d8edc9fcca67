package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// A kind is the kind of a message.
type kind string

const (
	values   kind = "value" // a change
	streams  kind = "stream"
	jobs     kind = "job"
	messages kind = "message"
	replies  kind = "reply"
	refusals kind = "refusal" // the replica has no subscriber for a request
)

// topic returns the key of a hub's listeners.
func (k kind) topic(name string) string { return string(k) + " " + name }

// A message is what replicas send one another.
type message struct {
	Kind   kind    `json:"kind"`
	Name   string  `json:"name,omitempty"` // of what has changed, or the subject
	Data   []byte  `json:"data,omitempty"`
	From   replica `json:"from,omitempty"`   // waits for the reply to a request, or refuses the request
	Number uint64  `json:"number,omitempty"` // of the request, among the requests of the replica that waits
}

// A notification is one NOTIFY. A message is one or more of them, in one transaction, so that they arrive one after the
// other. Each notification begins with its number and the number of all, "1/1 ", because PostgreSQL sends equal
// notifications of a transaction once.
type notification struct{ channel, payload string }

// maxPart is how many bytes of a message are in a notification. PostgreSQL permits 7,999 with the
// numbers.
const maxPart = 7900

// notifications returns the notifications of a message.
func notifications(channel string, m message) (all []notification, err error) {
	text, err := json.Marshal(m)
	count := (len(text) + maxPart - 1) / maxPart
	for i := range count {
		part := text[i*maxPart : min((i+1)*maxPart, len(text))]
		all = append(all, notification{channel, fmt.Sprintf("%d/%d %s", i+1, count, part)})
	}
	return all, err
}

// parts are the notifications of a message that have arrived.
type parts struct{ text strings.Builder }

// add adds a notification, and returns the message if that was its last notification. It ignores notifications that no
// store has sent.
func (p *parts) add(payload string) (m message, complete bool) {
	numbers, part, _ := strings.Cut(payload, " ")
	number, count := 0, 0
	_, err := fmt.Sscanf(numbers, "%d/%d", &number, &count)
	if number == 1 {
		p.text.Reset()
	}
	p.text.WriteString(part)
	if err != nil || number < count {
		return message{}, false
	}
	err = json.Unmarshal([]byte(p.text.String()), &m)
	return m, err == nil
}

const notifySQL = `SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS notifications (channel, payload)`

// send sends a message on a channel.
func (s *Store) send(ctx context.Context, channel string, m message) error {
	if _, err := checked(m.Data); err != nil {
		return err
	}
	all, err := notifications(channel, m)
	if err != nil {
		return err
	}
	return s.notify(ctx, all)
}

// notify sends notifications in one transaction.
func (s *Store) notify(ctx context.Context, all []notification) error {
	var channels, payloads []string
	for _, n := range all {
		channels, payloads = append(channels, n.channel), append(payloads, n.payload)
	}
	_, err := s.exec(ctx, notifySQL, channels, payloads)
	return err
}

// maxOutbox is how many messages wait until they are sent. More are lost.
const maxOutbox = 1000

// changed notifies all replicas that something has changed. The message is not part of the
// transaction of the change: PostgreSQL commits transactions with notifications one after the
// other, and each of them would wait for the disk.
func (s *Store) changed(k kind, name string) { s.sendSoon(s.channel, message{Kind: k, Name: name}) }

// sendSoon adds a message without data to the outbox.
func (s *Store) sendSoon(channel string, m message) {
	all, err := notifications(channel, m)
	if err != nil || len(all) != 1 {
		return
	}
	select {
	case s.outbox <- all[0]:
	default:
	}
}

// sendLater sends what is in the outbox until the store is closed.
func (s *Store) sendLater() {
	for {
		var all []notification
		select {
		case n := <-s.outbox:
			all = append(all, n)
		case <-s.ctx.Done():
			return
		}
		for range len(s.outbox) {
			all = append(all, <-s.outbox)
		}
		_ = s.do(s.ctx, func(ctx context.Context) error { return s.notify(ctx, all) }) // they may be lost
	}
}
