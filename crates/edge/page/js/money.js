// How many digits of an amount are minor units, by ISO 4217, as the terminal has them (crates/cli/src/draw/money.rs). Browsers have
// numbers of their own for some currencies: Chromium shows Lebanese pounds and Iraqi dinars without any, and would tell a hundred or a
// thousand times the price.

const DIGITS = {
  0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
  3: 'BHD IQD JOD KWD LYD OMR TND',
  4: 'CLF UYW',
};

const digits = new Map(Object.entries(DIGITS).flatMap(([count, currencies]) => currencies.split(' ').map((currency) => [currency, Number(count)])));

/** The digits of a currency's minor units. */
export const digitsOf = (currency) => digits.get(currency) ?? 2;
