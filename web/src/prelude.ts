// Must be the first import of the page: zod tries `new Function` when the SDK's schemas are made, which the content
// security policy forbids and reports.

import { config } from 'zod';

config({ jitless: true });
