package redis

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// ROCK keeps the end of a sandbox beside its record, in timeout:<id>:
//
//	{"auto_clear_time": "30", "expire_time": "1787552764"}
//
// minutes and Unix seconds, both written as strings (rock/sandbox/utils/timeout.py). A
// sandbox is stopped after expire_time, and with every call that ROCK sees it sets that
// to now and the minutes.

// extended is the document with its end pushed back to now and its minutes, and false
// when there is nothing to write: it ends later anyway, or it names no minutes to
// count. Everything else in it stays.
//
// It is written as ROCK wrote it: a number where there was one.
func extended(document []byte, names Fields, now time.Time) (_ []byte, ok bool, _ error) {
	fields, err := object(document)
	if err != nil {
		return nil, false, err
	}
	minutes, err := strconv.ParseInt(scalar(fields[names.AutoClearTime]), 10, 64)
	if err != nil || minutes <= 0 || minutes > math.MaxInt32 {
		return nil, false, nil // 0 is "due at once"
	}
	end, err := strconv.ParseInt(scalar(fields[names.ExpireTime]), 10, 64)
	if err != nil {
		return nil, false, nil
	}
	later := now.Unix() + minutes*60
	if later <= end {
		return nil, false, nil
	}
	text := strconv.FormatInt(later, 10)
	if fields[names.ExpireTime][0] == '"' {
		text = strconv.Quote(text)
	}
	fields[names.ExpireTime] = json.RawMessage(text)
	document, err = json.Marshal(fields)
	if err != nil {
		return nil, false, fmt.Errorf("%w: its timeout is not JSON", routing.ErrMalformed)
	}
	return document, true, nil
}
