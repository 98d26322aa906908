package bucket_test

import (
	"fmt"
	"time"

	"github.com/weirq/weir/bucket"
)

func ExampleParse() {
	for _, text := range []string{"100/m", "60/60s", "1.50 / second", "5/30s", "100/mo", "0.5/m"} {
		rate, err := bucket.Parse(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(rate)
	}
	// Output:
	// 100/m
	// 60/m
	// 1.5/s
	// 5/30s
	// rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"
	// rate "0.5/m": count "0.5" is below 1: use at least 1 and a longer period, as in "1/15m"
}

func ExampleLimit() {
	limit, err := bucket.NewLimit("100/m", 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limit)
	fmt.Println("at once:", limit.Capacity()/bucket.Token)
	// Output:
	// 100/m burst 20
	// at once: 20
}

func ExampleLimit_Share() {
	for _, burst := range []int64{0, 12} {
		limit, _ := bucket.NewLimit("10/s", burst)
		hold := limit.Hold(time.Second)
		fmt.Printf("%s is asked every %v and gets %.1f %%\n", limit, hold, 100*limit.Share(hold, 2*time.Millisecond))
	}
	// Output:
	// 10/s is asked every 1s and gets 99.8 %
	// 10/s burst 12 is asked every 1s and gets 100.0 %
}

func ExampleBucket() {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	limit, _ := bucket.NewLimit("100/m", 0)
	b := bucket.Full(limit, noon.UnixMicro())

	b, ok := b.Take(100)
	fmt.Println("a hundred at once:", ok)

	b, ok = b.Take(1)
	fmt.Println("one more:", ok)

	at, _ := b.TimeOf(1)
	fmt.Println("the next at:", time.UnixMicro(at).UTC().Format("15:04:05.000"))

	b, _ = b.Refill(noon.Add(30 * time.Second).UnixMicro())
	fmt.Println("after half a minute:", b.Tokens())

	b, _ = b.Refill(noon.AddDate(0, 1, 0).UnixMicro())
	fmt.Println("after a month:", b.Tokens())
	// Output:
	// a hundred at once: true
	// one more: false
	// the next at: 12:00:00.600
	// after half a minute: 50
	// after a month: 100
}

func ExampleBucket_Switch() {
	slow, _ := bucket.NewLimit("10/m", 0)
	fast, _ := bucket.NewLimit("1000/m", 0)
	b := bucket.Full(slow, 0)

	b = b.Switch(fast)
	fmt.Println("a larger limit has to be earned:", b.Tokens())

	b, _ = b.Refill(time.Minute.Microseconds())
	fmt.Println("a minute later:", b.Tokens())

	b = b.Switch(slow)
	fmt.Println("a smaller limit cuts:", b.Tokens())
	// Output:
	// a larger limit has to be earned: 10
	// a minute later: 1000
	// a smaller limit cuts: 10
}
