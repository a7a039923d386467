/** A queue on a ring: adding and taking cost the same however long it is. */
export class Fifo<Item> {
  private ring: (Item | undefined)[] = new Array(16);
  private head = 0;
  private count = 0;

  get length(): number {
    return this.count;
  }

  /** The oldest item, which stays. */
  get first(): Item | undefined {
    return this.ring[this.head];
  }

  push(item: Item): void {
    if (this.count === this.ring.length) {
      const items = [...this];
      this.ring = items.concat(new Array(items.length));
      this.head = 0;
    }
    this.ring[(this.head + this.count) & (this.ring.length - 1)] = item;
    this.count += 1;
  }

  /** Take the oldest item. */
  shift(): Item | undefined {
    const item = this.ring[this.head];
    if (this.count === 0) return undefined;
    this.ring[this.head] = undefined;
    this.head = (this.head + 1) & (this.ring.length - 1);
    this.count -= 1;
    return item;
  }

  /** Take all items. */
  drain(): Item[] {
    const items = [...this];
    this.ring = new Array(16);
    this.head = this.count = 0;
    return items;
  }

  *[Symbol.iterator](): Generator<Item, void, undefined> {
    for (let index = 0; index < this.count; index += 1)
      yield this.ring[(this.head + index) & (this.ring.length - 1)] as Item;
  }
}
