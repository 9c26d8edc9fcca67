package main

import "github.com/dovetail-go/dovetail/server/memory"

// A document is what the file holds: all there is, by owner.
type document map[string]*belongings

// belongings are what one owner has: conversations by their ids, facts by users and
// keys.
type belongings struct {
	Conversations map[string]string            `json:"conversations,omitempty"`
	Facts         map[string]map[string]string `json:"facts,omitempty"`
}

// records are those of a collection, nil if there are none.
func (d document) records(in memory.Collection) map[string]string {
	owned := d[in.Owner]
	switch {
	case owned == nil:
		return nil
	case in.Kind == memory.Conversations:
		return owned.Conversations
	default:
		return owned.Facts[in.User]
	}
}

// collection is records that can be added to.
func (d document) collection(in memory.Collection) map[string]string {
	if records := d.records(in); records != nil {
		return records
	}
	owned := d[in.Owner]
	if owned == nil {
		owned = &belongings{}
		d[in.Owner] = owned
	}
	records := map[string]string{}
	if in.Kind == memory.Conversations {
		owned.Conversations = records
		return records
	}
	if owned.Facts == nil {
		owned.Facts = map[string]map[string]string{}
	}
	owned.Facts[in.User] = records
	return records
}

// delete says whether there was a record to delete.
func (d document) delete(in memory.Collection, key string) bool {
	records := d.records(in)
	if _, there := records[key]; !there {
		return false
	}
	delete(records, key)
	if len(records) == 0 && in.Kind == memory.Facts {
		delete(d[in.Owner].Facts, in.User)
	}
	return true
}

// usage counts bytes.
func (d document) usage(owner string) (have memory.Usage) {
	for name, owned := range d {
		if owned == nil {
			continue
		}
		bytes := sizeOf(memory.Collection{Owner: name, Kind: memory.Conversations}, owned.Conversations)
		for user, facts := range owned.Facts {
			bytes += sizeOf(memory.Collection{Owner: name, Kind: memory.Facts, User: user}, facts)
		}
		have.TotalBytes += bytes
		if name == owner {
			have.OwnerBytes = bytes
		}
	}
	return have
}

func sizeOf(in memory.Collection, records map[string]string) (bytes int64) {
	for key, value := range records {
		bytes += memory.Size(in, memory.Record{Key: key, Value: value})
	}
	return bytes
}
