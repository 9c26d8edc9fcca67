package jsonscan_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

// acceptedByChoice are the files of JSONTestSuite (https://github.com/nst/JSONTestSuite)
// on which RFC 8259 leaves a parser free and which this one accepts: numbers
// keep their text, however large, 500 levels are not too deep, and an escaped
// surrogate needs no other half. It refuses all other i_ files: no text that is
// not UTF-8, no byte order mark.
var acceptedByChoice = map[string]bool{
	"i_number_double_huge_neg_exp.json":                   true,
	"i_number_huge_exp.json":                              true,
	"i_number_neg_int_huge_exp.json":                      true,
	"i_number_pos_double_huge_exp.json":                   true,
	"i_number_real_neg_overflow.json":                     true,
	"i_number_real_pos_overflow.json":                     true,
	"i_number_real_underflow.json":                        true,
	"i_number_too_big_neg_int.json":                       true,
	"i_number_too_big_pos_int.json":                       true,
	"i_number_very_big_negative_int.json":                 true,
	"i_structure_500_nested_arrays.json":                  true,
	"i_huge_exponent.json":                                true, // of the sample in testdata
	"i_object_key_lone_2nd_surrogate.json":                true,
	"i_string_1st_surrogate_but_2nd_missing.json":         true,
	"i_string_1st_valid_surrogate_2nd_invalid.json":       true,
	"i_string_UTF-16LE_with_BOM.json":                     false,
	"i_string_UTF-8_invalid_sequence.json":                false,
	"i_string_UTF8_surrogate_U+D800.json":                 false,
	"i_string_incomplete_surrogate_and_escape_valid.json": true,
	"i_string_incomplete_surrogate_pair.json":             true,
	"i_string_incomplete_surrogates_escape_valid.json":    true,
	"i_string_invalid_lonely_surrogate.json":              true,
	"i_string_invalid_surrogate.json":                     true,
	"i_string_invalid_utf-8.json":                         false,
	"i_string_inverted_surrogates_U+1D11E.json":           true,
	"i_string_iso_latin_1.json":                           false,
	"i_string_lone_second_surrogate.json":                 true,
	"i_string_lone_utf8_continuation_byte.json":           false,
	"i_string_not_in_unicode_range.json":                  false,
	"i_string_overlong_sequence_2_bytes.json":             false,
	"i_string_overlong_sequence_6_bytes.json":             false,
	"i_string_overlong_sequence_6_bytes_null.json":        false,
	"i_string_truncated-utf-8.json":                       false,
	"i_string_utf16BE_no_BOM.json":                        false,
	"i_string_utf16LE_no_BOM.json":                        false,
	"i_structure_UTF-8_BOM_empty_object.json":             false,
	"i_lone_surrogate.json":                               true,
	"i_invalid_utf8.json":                                 false,
	"i_byte_order_mark.json":                              false,
}

func TestSuiteParsing(t *testing.T) {
	dir, whole := testsuites.Dir(t, "json/test_parsing")
	if !whole {
		dir = filepath.Join("testdata", "parsing")
	}
	count := map[byte]int{}
	for name, data := range files(t, dir) {
		count[name[0]]++
		want := name[0] == 'y'
		if name[0] == 'i' {
			var listed bool
			if want, listed = acceptedByChoice[name]; !listed {
				t.Errorf("%s: no verdict is listed", name)
				continue
			}
		}
		if err := jsonscan.Valid(data); (err == nil) != want {
			t.Errorf("%s: accepted %v, want %v: %v", name, err == nil, want, err)
		}
	}
	if want := map[byte]int{'y': 95, 'n': 188, 'i': 35}; whole && !cmp.Equal(count, want) {
		t.Errorf("files by verdict: %v", cmp.Diff(want, count))
	}
}

// Objects that readers may understand differently are valid JSON, and refused
// where an object is read.
func TestSuiteAmbiguousObjects(t *testing.T) {
	dir, whole := testsuites.Dir(t, "json/test_parsing")
	if !whole {
		dir = filepath.Join("testdata", "parsing")
	}
	refused := map[string]bool{
		"y_object_duplicated_key.json":           true,
		"y_object_duplicated_key_and_value.json": true,
		"y_object_escaped_null_in_key.json":      true,
		"y_duplicate_name.json":                  true,
	}
	for name, data := range files(t, dir) {
		if name[0] != 'y' || jsonscan.KindOf(data) != jsonscan.Object {
			continue
		}
		_, err := jsonscan.ReadObject(data)
		var duplicate *jsonscan.DuplicateError
		if got := errors.As(err, &duplicate); got != refused[name] {
			t.Errorf("%s: refused %v, want %v: %v", name, got, refused[name], err)
		}
	}
}

// What is accepted keeps every byte, so that no number is rounded and no name
// normalized; what could only be kept by replacing something is refused.
func TestSuiteTransform(t *testing.T) {
	dir, ok := testsuites.Dir(t, "json/test_transform")
	if !ok {
		dir = filepath.Join("testdata", "transform")
	}
	for name, data := range files(t, dir) {
		t.Run(name, func(t *testing.T) {
			s := jsonscan.New(data)
			value, err := s.Value()
			if !utf8.Valid(data) {
				if err == nil {
					t.Fatalf("accepted: %q", data)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(value), strings.TrimSpace(string(data)); got != want {
				t.Errorf("value %q, want %q", got, want)
			}
			if strings.HasPrefix(name, "object_same_key") {
				if _, err := jsonscan.ReadObject(data); err == nil {
					t.Error("a name given twice was accepted")
				}
			}
		})
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, entry := range entries {
		if all[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", dir)
	}
	return all
}
