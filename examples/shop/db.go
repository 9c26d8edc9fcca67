package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// A DB stores the items and orders of a shop in one file. Its methods may be called
// concurrently: bbolt has one writer at a time, and a reader sees a snapshot.
type DB struct {
	bolt   *bbolt.DB
	folder string // temporary folder that Close removes, or ""
}

// lockTimeout bounds the wait for another program that uses the file.
const lockTimeout = time.Second

var (
	itemsBucket  = []byte("items")
	ordersBucket = []byte("orders")
)

// openDB opens the database in a file, or a temporary one if file is empty. A new database
// has the items of opening.
func openDB(file string) (*DB, error) {
	db := &DB{}
	if file == "" {
		folder, err := os.MkdirTemp("", "shop")
		if err != nil {
			return nil, err
		}
		db.folder, file = folder, filepath.Join(folder, "shop.db")
	}
	var err error
	if db.bolt, err = bbolt.Open(file, 0o600, &bbolt.Options{Timeout: lockTimeout}); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", file, err), db.remove())
	}
	if err := db.bolt.Update(open); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// open creates the buckets of a new database.
func open(tx *bbolt.Tx) error {
	if tx.Bucket(itemsBucket) != nil {
		return nil
	}
	items, err := tx.CreateBucket(itemsBucket)
	if err != nil {
		return err
	}
	for i, item := range opening() {
		item.ID = i + 1
		if err := put(items, item.ID, item); err != nil {
			return err
		}
	}
	_, err = tx.CreateBucket(ordersBucket)
	return err
}

// Close closes the file and removes it if it is temporary.
func (db *DB) Close() error { return errors.Join(db.bolt.Close(), db.remove()) }

func (db *DB) remove() error {
	if db.folder == "" {
		return nil
	}
	return os.RemoveAll(db.folder)
}

// item returns one item.
func (db *DB) item(id int) (item Item, err error) {
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		item, err = get(tx, id)
		return err
	})
	return item, err
}

// items returns a snapshot of all items in the order of their ids.
func (db *DB) items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var all []Item
		err := db.bolt.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(itemsBucket).ForEach(func(_, value []byte) error {
				var item Item
				err := json.Unmarshal(value, &item)
				all = append(all, item)
				return err
			})
		})
		if err != nil {
			yield(Item{}, err)
			return
		}
		// The loop body runs outside of the transaction, so it may be slow.
		for _, item := range all {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// complete returns the texts of the items for which text reports true.
func (db *DB) complete(text func(Item) (string, bool)) ([]string, error) {
	var texts []string
	for item, err := range db.items() {
		if err != nil {
			return nil, err
		}
		if text, ok := text(item); ok {
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// order reduces the stock and stores the order in one transaction.
func (db *DB) order(id, quantity int) (order Order, err error) {
	err = db.bolt.Update(func(tx *bbolt.Tx) error {
		item, err := get(tx, id)
		if err != nil {
			return err
		}
		if err := item.spare(quantity); err != nil {
			return err
		}
		item.Stock -= quantity
		if err := put(tx.Bucket(itemsBucket), id, item); err != nil {
			return err
		}
		orders := tx.Bucket(ordersBucket)
		number, err := orders.NextSequence()
		if err != nil {
			return err
		}
		order = Order{Number: int(number), Item: id, Quantity: quantity, Price: quantity * item.Price, Time: time.Now().UTC()}
		return put(orders, order.Number, order)
	})
	return order, err
}

// restock increases the stock.
func (db *DB) restock(id, quantity int) (item Item, err error) {
	err = db.bolt.Update(func(tx *bbolt.Tx) error {
		if item, err = get(tx, id); err != nil {
			return err
		}
		item.Stock += quantity
		return put(tx.Bucket(itemsBucket), id, item)
	})
	return item, err
}

func get(tx *bbolt.Tx, id int) (item Item, err error) {
	value := tx.Bucket(itemsBucket).Get(key(id))
	if value == nil {
		return item, unknownItem(id)
	}
	return item, json.Unmarshal(value, &item)
}

func put(bucket *bbolt.Bucket, id int, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return bucket.Put(key(id), encoded)
}

// key encodes an id so that keys sort by id.
func key(id int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }
