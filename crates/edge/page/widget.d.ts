// The types of <boxoffice-map>. docs/reference/widget.md describes its use.

/** Minor units of a currency, such as cents. */
export interface Money {
  amount: number;
  currency: string;
}

/** A seat. `row` and `seat` are the numbers that `cart.hold_seats` wants. */
export interface MapSeat {
  row: number;
  seat: number;
  /** Its name for people, in the language of the map. */
  label: string;
  /** What it costs now as its price type. */
  price: Money | null;
  /** The id of its price type, in a session that has price types. */
  type?: string;
  /** The id and the name of its category. */
  category: string;
  categoryName: string;
}

/** Places of an area without seats. */
export interface MapPlaces {
  area: string;
  name: string;
  quantity: number;
  price: Money;
  /** The id of their price type, in a session that has price types. */
  type?: string;
}

/** What the events `ready`, `pick`, `select` and `lost` tell. */
export interface MapDetail {
  /** The session that is shown. */
  session: string;
  seats: MapSeat[];
  places: MapPlaces[];
}

/** What the event `fault` tells, and what `hold` and `release` reject with. */
export interface MapFault {
  /** The number of the refusal or failure, if it has one. */
  code: number | null;
  /** Its name, such as `seats_taken`. */
  reason: string;
  message: string;
}

export interface MapFaultDetail extends MapFault {
  session: string;
}

/** What `hold` has held. */
export interface MapHeld {
  session: string;
  /** The token of the cart, which pays. It is a secret. */
  cart: string;
  seats: MapSeat[];
  places: MapPlaces[];
  /** When the hold ends, as ISO 8601. */
  deadline?: string;
}

/** A seat, or places of an area, that are the buyer's. */
export type Mine = [row: number, seat: number] | { area: string; quantity: number };

export interface BoxofficeMapEvents {
  ready: CustomEvent<MapDetail>;
  pick: CustomEvent<MapDetail>;
  lost: CustomEvent<MapDetail>;
  fault: CustomEvent<MapFaultDetail>;
}

export declare class BoxofficeMap extends HTMLElement {
  /** The attributes of the same names. */
  session: string;
  node: string;
  max: number;
  /** The buyer's own seats. What is set is added to what the cart of the map has. */
  get mine(): [row: number, seat: number][];
  set mine(seats: readonly Mine[] | null);
  /** The token of the cart, a secret. */
  get cart(): string | null;
  set cart(token: string | null);
  /** The code that `hold` shows: what the site has set, or what the buyer has entered since. Never written to the attribute. */
  get code(): string | null;
  set code(code: string | null);
  readonly state: 'idle' | 'connecting' | 'ready' | 'fault';
  /** Whether the session that is shown sells. Otherwise nothing can be picked. */
  readonly sale: 'on' | 'not_yet' | 'begun' | 'ended' | 'over' | 'canceled';
  readonly selected: MapSeat[];
  readonly places: MapPlaces[];
  clear(): void;
  hold(): Promise<MapHeld | null>;
  release(what?: readonly (readonly [row: number, seat: number])[] | string): Promise<void>;
  pointOf(row: number, seat: number): { x: number; y: number } | null;
  addEventListener<K extends keyof BoxofficeMapEvents>(
    type: K,
    listener: (this: BoxofficeMap, event: BoxofficeMapEvents[K]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
}

/** The attributes and events of the element in JSX. */
export interface BoxofficeMapProps {
  session?: string;
  node?: string;
  max?: number;
  lang?: string;
  mine?: readonly Mine[] | null;
  cart?: string | null;
  code?: string | null;
  onready?: (event: CustomEvent<MapDetail>) => void;
  onpick?: (event: CustomEvent<MapDetail>) => void;
  onlost?: (event: CustomEvent<MapDetail>) => void;
  onfault?: (event: CustomEvent<MapFaultDetail>) => void;
}

declare global {
  interface HTMLElementTagNameMap {
    'boxoffice-map': BoxofficeMap;
  }
}
