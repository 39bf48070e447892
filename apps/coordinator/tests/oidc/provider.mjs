// The certified OpenID provider `oidc-provider`, for the test of signing in (src/tests/people/oidc/real.rs). Its pages to sign in and to consent are those that it
// brings for development. Prints its issuer as the first line.
//
//   node provider.mjs REDIRECT-URI SECRET
//
// POST /test/remove/NAME removes an account, POST /test/groups/NAME/GROUPS sets its groups.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [redirect, secret] = process.argv.slice(2);
const require = createRequire(join(process.env.TAUT_TEST_OIDC, 'package.json'));
const { Provider } = await import(require.resolve('oidc-provider'));

const removed = new Set();
const groups = new Map();

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'taut',
      client_secret: secret,
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      response_types: ['code'],
    }],
    claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
    scopes: ['openid', 'offline_access'],
    features: { deviceFlow: { enabled: true } },
    // Each refresh token works once, and a second use of one withdraws the access: as strict as a provider can be.
    rotateRefreshToken: true,
    pkce: { required: () => true },
    findAccount: (_, id) => removed.has(id) ? undefined : {
      accountId: id,
      claims: () => ({
        sub: id,
        name: `${id} of the test`,
        email: `${id}@example.com`,
        email_verified: true,
        groups: groups.get(id) ?? ['staff'],
      }),
    },
  });
  const answer = provider.callback();
  server.on('request', (request, response) => {
    const [, test, what, name, value] = request.url.split('/');
    if (test !== 'test') return answer(request, response);
    if (what === 'remove') removed.add(name);
    if (what === 'groups') groups.set(name, value.split(','));
    return response.end();
  });
  console.log(issuer);
});
