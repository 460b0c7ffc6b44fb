package polite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// PageFields names the fields of a JSON page. A dot goes into a nested object:
// "meta.total".
type PageFields struct {
	Items string // the array of items; "" means that the whole body is the array
	Total string // the number of items in the collection; "" means that it is not told
	Pages string // the number of pages in the collection; "" means that it is not told
	Next  string // the next page's cursor or link; "" means that it is not told
}

// JSONPage returns a Pager.Decode function for JSON pages whose items decode
// into T. A body without the array of items is an error, and so is a total that
// is not a number; null is an empty array, and no total. A negative total is
// not known. A cursor may be a string or a number; absent, null and "" all mean
// that there is none. An empty body is an empty page if the status is 204.
func JSONPage[T any](fields PageFields) func(*http.Response, []byte) (Batch[T], error) {
	return func(resp *http.Response, body []byte) (batch Batch[T], err error) {
		switch {
		case len(body) == 0 && resp.StatusCode == http.StatusNoContent:
			return batch, nil
		case fields == PageFields{}:
			err = json.Unmarshal(body, &batch.Items)
			return batch, notJSON(resp, err)
		}
		page := jsonObject{}
		if err := json.Unmarshal(body, &page); err != nil {
			return batch, notJSON(resp, err)
		}
		if batch.Items, batch.raw, err = pageItems[T](page, fields.Items); err != nil {
			return batch, err
		}
		if batch.Total, err = page.count(fields.Total); err != nil {
			return batch, err
		}
		if pages, err := page.count(fields.Pages); err != nil {
			return batch, err
		} else if pages != nil {
			batch.Pages = *pages
		}
		batch.Next, err = page.text(fields.Next)
		return batch, err
	}
}

// AromaPages returns a Pager for a list of the Botiga Aroma API, such as
// https://api.botigaaroma.example/v1/cafes, and for any other API of its shape:
// ?limit=100&desplacament=200 and {"dades":[...],"total":2350}.
func AromaPages[T any](client *Client, url string) *Pager[T] {
	return &Pager[T]{
		Client: client,
		Scheme: OffsetPages{URL: url, OffsetParam: "desplacament"},
		Decode: JSONPage[T](PageFields{Items: "dades", Total: "total"}),
	}
}

func pageItems[T any](page jsonObject, path string) (items []T, raw json.RawMessage, err error) {
	raw, err = page.find(path)
	switch {
	case err != nil:
		return nil, nil, err
	case raw == nil:
		return nil, nil, fmt.Errorf("the page has no field %q%s", path, page.names())
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, nil, fmt.Errorf("field %q: %w", path, err)
	}
	return items, raw, nil
}

// jsonObject is an object of which only the needed fields get decoded.
type jsonObject map[string]json.RawMessage

// names tells the first of an object's fields, for messages.
func (o jsonObject) names() string {
	const most = 8
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		names = append(names, strconv.Quote(name))
	}
	switch {
	case len(names) == 0:
		return ", nor any other"
	case len(names) > most:
		names = append(names[:most], "…")
	}
	return "; it has " + strings.Join(names, ", ")
}

// find returns the field at the path; nil if it, or an object on the way, is
// absent or null.
func (o jsonObject) find(path string) (json.RawMessage, error) {
	name, rest, nested := strings.Cut(path, ".")
	raw := o[name]
	if !nested || raw == nil {
		return raw, nil
	}
	inner := jsonObject{}
	if err := json.Unmarshal(raw, &inner); err != nil {
		return nil, fmt.Errorf("field %q: %w", name, err)
	}
	return inner.find(rest)
}

// count reads a whole number, which some servers write in quotes. Nil means
// that there is none.
func (o jsonObject) count(path string) (*int, error) {
	raw, err := o.find(path)
	if err != nil || raw == nil || path == "" {
		return nil, err
	}
	var number *json.Number
	if err := json.Unmarshal(raw, &number); err != nil {
		return nil, fmt.Errorf("field %q is not a number", path)
	}
	if number == nil {
		return nil, nil
	}
	n, err := strconv.ParseFloat(number.String(), 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > maxCount {
		return nil, fmt.Errorf("field %q is not a whole number of items or pages", path)
	}
	count := int(n)
	return &count, nil
}

// text reads a cursor or link.
func (o jsonObject) text(path string) (string, error) {
	raw, err := o.find(path)
	if err != nil || raw == nil || path == "" {
		return "", err
	}
	var value any
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber() // 64-bit cursors keep their digits
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("field %q: %w", path, err)
	}
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	case json.Number:
		return value.String(), nil
	}
	return "", errors.New("field " + strconv.Quote(path) + " is neither a string nor a number")
}
