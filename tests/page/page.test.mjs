// Every test of the page at the demonstration, in this order. Tests that end nodes come last. The tests of web.test.mjs have nodes of
// their own.

import './words.test.mjs';
import './offers.test.mjs';
import './money.test.mjs';
import './token.test.mjs';
import './tabs.test.mjs';
import './fold.test.mjs';
import './zone.test.mjs';
import './doubt.test.mjs';
import './seats.test.mjs';
import './devices.test.mjs';
import './goods.test.mjs';
import './other-site.test.mjs';
import './access.test.mjs';
import './faults.test.mjs';
import { after } from 'node:test';
import { closeChrome } from './lib.mjs';

after(closeChrome);
