"""
Names and texts that hold a secret, and others that only look like it.

A secret stands between « and ». Every second row was put aside before the rules were written, and only
measured with them at the end: see ``HELD_BACK``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

KEYS: Final = (
    "password",
    "spark.db.password",
    "db_password",
    "dbPassword",
    "DB_PASSWORD",
    "dbpassword",
    "user-password",
    "sslKeystorePassword",
    "spark.ssl.keyPassword",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "javax.net.ssl.trustStorePassword",
    "spark.ssl.historyServer.keyStorePassword",
    "passwd",
    "mysql_passwd",
    "rootPasswd",
    "passphrase",
    "gpg.passphrase",
    "keyPassphrase",
    "passcode",
    "spark.stomp.passcode",
    "pwd",
    "db_pwd",
    "dbPwd",
    "MYSQL_PWD",
    "pw",
    "spark.redis.pw",
    "admin_pw",
    "adminPw",
    "pass",
    "redis.pass",
    "smtp_pass",
    "smtpPass",
    "PGPASS",
    "secret",
    "client_secret",
    "clientSecret",
    "spark.authenticate.secret",
    "fs.s3a.secret.key",
    "awsSecretAccessKey",
    "AWS_SECRET_ACCESS_KEY",
    "appSecret",
    "secrets.value",
    "oauth2.client.secret",
    "webhookSecret",
    "shared_secret",
    "sharedSecret",
    "token",
    "access_token",
    "accessToken",
    "refreshToken",
    "id_token",
    "apiToken",
    "spark.databricks.token",
    "bearer_token",
    "SLACK_BOT_TOKEN",
    "botToken",
    "auth.token",
    "sessionToken",
    "fs.s3a.session.token",
    "AWS_SESSION_TOKEN",
    "vault-token",
    "githubToken",
    "csrf_token",
    "xsrfToken",
    "personalAccessToken",
    "pat",
    "azure.devops.pat",
    "AZURE_PAT",
    "gitPat",
    "sasToken",
    "sas",
    "fs.azure.sas.container.account",
    "fs.azure.account.key.acc.dfs.core.windows.net",
    "accountKey",
    "account_key",
    "azure.storage.accountKey",
    "storageKey",
    "storage_key",
    "sharedKey",
    "shared_key",
    "sharedAccessKey",
    "SharedAccessSignature",
    "eventhubs.connectionString",
    "connection_string",
    "connectionString",
    "apiKey",
    "api_key",
    "apikey",
    "api-key",
    "X-API-Key",
    "DATADOG_API_KEY",
    "datadog.appKey",
    "app_key",
    "appKey",
    "spark.datadog.application.key",
    "accessKey",
    "access_key",
    "fs.s3a.access.key",
    "privateKey",
    "private_key",
    "ssl.private.key",
    "sshPrivateKey",
    "rsa_private_key",
    "pem.private.key",
    "encryptionKey",
    "encryption.key",
    "encryption_key",
    "kms.encryption.key",
    "parquet.encryption.column.keys",
    "parquet.encryption.footer.key",
    "parquet.encryption.key.list",
    "spark.io.encryption.key",
    "fernet_key",
    "AIRFLOW__CORE__FERNET_KEY",
    "signingKey",
    "signing_key",
    "jwt.signing.key",
    "masterKey",
    "master_key",
    "cosmos.masterKey",
    "clientKey",
    "client_key",
    "client.key",
    "ssl.client.key",
    "spark.ssl.key",
    "ssl.key",
    "tls.key",
    "server.key",
    "tls_key",
    "tlsKey",
    "psk",
    "wifi.psk",
    "tls.psk",
    "pskKey",
    "preSharedKey",
    "pre_shared_key",
    "hmacKey",
    "hmac_key",
    "hmac.secret",
    "license_key",
    "licenseKey",
    "subscriptionKey",
    "Ocp-Apim-Subscription-Key",
    "functionKey",
    "function_key",
    "serviceKey",
    "service_account_key",
    "serviceAccountKey",
    "credentials",
    "google.credentials",
    "credential",
    "aws_credentials",
    "creds",
    "db.creds",
    "db_creds",
    "dbCreds",
    "userCreds",
    "cred",
    "spark.cred",
    "sasl.jaas.config",
    "saslJaasConfig",
    "kafka.sasl.jaas.config",
    "basicAuth",
    "basic.auth.user.info",
    "basic_auth",
    "basic-auth",
    "httpBasicAuth",
    "auth",
    "authParams",
    "auth_params",
    "pulsar.client.authParams",
    "authPluginParams",
    "proxy.auth",
    "proxyAuthorization",
    "authorization",
    "Authorization",
    "Proxy-Authorization",
    "cookie",
    "sessionCookie",
    "Set-Cookie",
    "jwt",
    "jwtToken",
    "bearer",
    "bearerAuth",
    "otp",
    "totpSecret",
    "webhook",
    "webhookUrl",
    "slack_webhook",
    "teams.webhook.url",
    "dsn",
    "SENTRY_DSN",
    "database_dsn",
    "otel.headers",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "otel.exporter.otlp.headers",
    "signature",
    "url.signature",
    "sig",
    "x-amz-signature",
    "nonceSecret",
    "sessionSecret",
    "sessionKey",
    "session_key",
    "secretKey",
    "secret_key",
    "cookieSecret",
    "encryptKey",
    "aesKey",
    "aes.key",
    "aes_key",
    "decryptionKey",
    "decryption_key",
    "cipherKey",
    "cipher.key",
    "symmetricKey",
    "kek",
    "dek.key",
    "wrappingKey",
    "unlockCode.secret",
    "recovery_key",
    "recoveryKey",
    "bootstrap.token",
    "joinToken",
    "deployKey",
    "deploy_key",
    "sshKey",
    "ssh_key",
    "spark.hadoop.my.store.key",
    "confluent.secret",
    "schema.registry.basic.auth.user.info",
    "sasl.password",
    "saslPassword",
    "sasl.oauthbearer.config",
)
"""Names of settings whose values are secret, whatever they are."""

VALUES: Final = tuple(
    line.strip()
    for line in """
postgresql://app:«tr0ub4dor»@db:5432/orders
redis://:«hunter2pw»@cache:6379/0
rediss://:«hunter2pw»@cache:6379
amqp://guest:«guestpw1»@mq//vhost
mongodb+srv://u:«m0ngopass»@cluster0.example.net/x
https://«ghp_0123456789abcdefghijABCDEFGHIJ012345»@github.com/a/b.git
https://user:«apitoken1»@example.com/pypi/simple
jdbc:postgresql://db/orders?user=app&password=«tr0ub4dor»
jdbc:mysql://db/orders?user=app&pass=«tr0ub4dor»
jdbc:sqlserver://db;databaseName=o;user=sa;password=«tr0ub4dor»;encrypt=true
jdbc:oracle:thin:scott/«tigerpw1»@db:1521/x
jdbc:snowflake://x.example.com/?token=«snowtoken1»
-Djavax.net.ssl.trustStorePassword=«changeit1»
-Dx.pw=«hunter2pw»
-Dredis.pass=«hunter2pw» -Xmx1g
-Dapi.key=«k3yk3yk3y»
-Dhttp.proxyPassword=«proxypw1»
-Xmx1g -Ddb.creds=«user/hunter2»
Basic «dXNlcjpodW50ZXIy»
Bearer «abcdef0123456789abcdef»
basic «YWRtaW46YWRtaW4xMjM=»
Token «9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b»
AccountName=acc;AccountKey=«c2VjcmV0c2VjcmV0c2VjcmV0»;EndpointSuffix=core.windows.net
Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=«c2VjcmV0c2VjcmV0»
DefaultEndpointsProtocol=https;AccountName=a;AccountKey=«a2V5a2V5a2V5a2V5»
BlobEndpoint=https://a.blob.core.windows.net/;SharedAccessSignature=«sv=2024-01-01&sig=abcdef»
https://acc.blob.core.windows.net/c?sv=2024&sig=«aBcDeF012345%3D»
https://bucket.s3.amazonaws.com/k?X-Amz-Credential=AKIA&X-Amz-Signature=«0123456789abcdef»
https://storage.googleapis.com/b/o?GoogleAccessId=x&Signature=«abcdef012345»
https://hooks.slack.com/services/«T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX»
https://discord.com/api/webhooks/«1234567890/AbCdEfGhIjKlMnOpQrStUvWxYz»
https://example.webhook.office.com/webhookb2/«11111111-2222-3333»@tenant/IncomingWebhook/abc
https://chat.googleapis.com/v1/spaces/AAA/messages?key=«AIzaSyA01234567890123456789012345678901»&token=abc123
https://api.telegram.org/bot«123456789:AAEhBOweik9ai2o01234567890abcdefghi»/sendMessage
«123456789:AAEhBOweik9ai2o01234567890abcdefghi»
«hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345»
«ghp_0123456789abcdefghijABCDEFGHIJ012345»
«github_pat_11ABCDEFG0123456789_abcdefghijklmnopqrstuv»
«glpat-0123456789abcdefghij»
«xoxb-123456789012-abcdefghijkl»
«xapp-1-A0123456789-abcdefghijkl»
«AKIAIOSFODNN7EXAMPLE»
«ASIAIOSFODNN7EXAMPLE»
«AIzaSyA01234567890123456789012345678901»
«ya29.a0AfH6SMBx0123456789abcdef»
«GOCSPX-0123456789abcdefghij»
«hvs.CAESIJ0123456789abcdefghij»
«dapi0123456789abcdef0123456789abcdef»
«npm_0123456789abcdefghijABCDEFGHIJ012345»
«pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIzLTQ1Njc4OWFiY2RlZg»
«dckr_pat_0123456789abcdefghijkl»
«sk_live_0123456789abcdefghij»
«rk_live_0123456789abcdefghij»
«sk-proj-0123456789abcdefghijABCDEFGHIJ»
«sk-ant-api03-0123456789abcdefghij»
«SG.0123456789abcdef0123.0123456789abcdef0123456789»
«shpat_0123456789abcdef0123456789abcdef»
«ATATT3xFfGF0123456789abcdefghij»
«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop»
«-----BEGIN RSA PRIVATE KEY----- MIIEow -----END RSA PRIVATE KEY-----»
«-----BEGIN PRIVATE KEY----- MIIEvQ -----END PRIVATE KEY-----»
«AGE-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQS»
org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="«hunter2pw»";
org.apache.kafka.common.security.scram.ScramLoginModule required username='u' password='«hunter2pw»';
{"user": "app", "pass": "«hunter2pw»"}
{'user': 'app', 'pass': '«hunter2pw»'}
{"type": "service_account", "private_key_id": "x", "private_key": "«-----BEGIN PRIVATE KEY-----\\nMIIE»"}
{"apiKey":"«k3yk3yk3y»","site":"eu"}
{"auths":{"registry.io":{"auth":"«dXNlcjpodW50ZXIy»"}}}
token:«tok-abcdef012345»,file:///x
authParams={"token":"«tok-abcdef012345»"}
--password «hunter2pw» --user app
--api-key=«k3yk3yk3y»
--db-pw «hunter2pw»
-u app -p x --client-secret «cl1ents3cret»
user:«hunter2pw»@db.example.com:5432
curl -u app:«hunter2pw» https://example.com
wget --password=«hunter2pw» https://example.com
PGPASSWORD=«hunter2pw» psql -h db
MYSQL_PWD=«hunter2pw» mysql
export AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY»
ldap://cn=admin:«ldappw12»@ldap.example.com
sftp://loader:«sftppw12»@files.example.com/in
column-1:«AAECAwQFBgcICQoLDA0ODw==»; footer password: «AAECAw12»
client_id=x&client_secret=«cl1ents3cret»&grant_type=client_credentials
username=app;pwd=«hunter2pw»
Server=db;Uid=sa;Pwd=«hunter2pw»;
access_key=«k3yk3yk3y»,secret_key=«s3crets3cret»
snowflake://app:«hunter2pw»@account/db
""".strip().splitlines()
)
"""Values of settings with harmless names."""

TEXTS: Final = tuple(
    line.strip()
    for line in """
org.postgresql.util.PSQLException: FATAL: connection to postgresql://app:«hunter2pw»@db:5432/orders failed
redis.exceptions.ConnectionError: Error 111 connecting to redis://:«hunter2pw»@cache:6379/0. Connection refused.
java.sql.SQLException: Access denied for jdbc:mysql://db/orders?user=app&password=«hunter2pw» (using password: YES)
org.apache.kafka.common.KafkaException: Failed to construct kafka consumer: sasl.jaas.config=org.x.PlainLoginModule required username="u" password="«hunter2pw»";
org.apache.kafka.common.config.ConfigException: Invalid value «hunter2pw1» for configuration ssl.key.password: wrong
KeyError: {'user': 'app', 'pass': '«hunter2pw»'}
ValueError: bad settings {'user': 'app', 'pw': '«hunter2pw»', 'host': 'db'}
requests.exceptions.HTTPError: 401 for https://app:«hunter2pw»@api.example.com/v1
requests.exceptions.HTTPError: 403 Client Error for url: https://hooks.slack.com/services/«T000/B000/XXXXXXXXXXXX»
urllib3.exceptions.MaxRetryError: /api/webhooks/«123456/AbCdEfGhIjKlMnOp» on discord.com failed
telegram.error.Unauthorized: https://api.telegram.org/bot«123456789:AAEhBOweik9ai2o01234567890abcdefghi»/getMe
subprocess.CalledProcessError: Command 'curl -u app:«hunter2pw» https://x' returned non-zero exit status 22.
subprocess.CalledProcessError: Command '['curl', '-u', 'app:«hunter2pw»', 'https://x']' returned 22.
subprocess.CalledProcessError: Command 'mysql -uapp -p«hunter2pw» orders' returned 1.
subprocess.CalledProcessError: Command 'psql --password=«hunter2pw»' returned 2.
subprocess.CalledProcessError: Command '['tool', '--api-key', '«k3yk3yk3y»']' returned 2.
org.postgresql.util.PSQLException: syntax error: CREATE USER app IDENTIFIED BY '«hunter2pw»'
java.sql.SQLSyntaxErrorException: ALTER USER app IDENTIFIED BY "«hunter2pw»"
psycopg2.errors.SyntaxError: ALTER ROLE app WITH PASSWORD '«hunter2pw»'
org.postgresql.util.PSQLException: CREATE ROLE x LOGIN ENCRYPTED PASSWORD '«md5abcdef0123»'
com.amazonaws.AmazonServiceException: The AWS Access Key Id «AKIAIOSFODNN7EXAMPLE» does not exist (Status 403)
software.amazon.awssdk: SignatureDoesNotMatch, StringToSign for AWSSecretKey=«wJalrXUtnFEMIbPxRfiCYEXAMPLEKEY»
com.azure.storage: AuthenticationFailed for AccountKey=«c2VjcmV0c2VjcmV0»;
com.azure: https://acc.blob.core.windows.net/c?sv=2024&sig=«aBcDeF012345%3D» returned 403
java.io.IOException: fs.azure.account.key.acc.dfs.core.windows.net = «c2VjcmV0c2VjcmV0» is invalid
IllegalArgumentException: fs.s3a.secret.key: «s3crets3cret» is too short
IllegalArgumentException: sharedKey=«sh4redk3y» is not base64
IllegalArgumentException: clientKey: «cl1entk3y1» must be PEM
IllegalArgumentException: ssl.key=«cl1entk3y1» cannot be read
java.lang.IllegalArgumentException: parquet.encryption.column.keys = «k1:AAECAwQFBgcI» has no columns
java.lang.RuntimeException: spark.redis.pw «hunter2pw» rejected
Exception: authentication failed with token «abc123def456ghi789»
Exception: invalid token: «abc123def456ghi789»
Exception: bad api key '«k3yk3yk3y»'
Exception: wrong password "«hunter2pw»" for user app
Exception: login with password=«hunter2pw» failed
Exception: basicAuth=«app:hunter2pw» was refused
Exception: authParams={"token":"«tok-abcdef0123»"} was refused
Exception: Authorization: Basic «dXNlcjpodW50ZXIy»
Exception: headers {'Authorization': 'Bearer «abcdef0123456789»', 'Accept': '*/*'}
Exception: header Authorization = Token «9944b09199c62bcf»
Exception: 'X-API-Key': '«k3yk3yk3y»' rejected
Exception: x-api-key: «k3yk3yk3y»
Exception: Set-Cookie: session=«abcdef012345»; Path=/
Exception: Cookie: sid=«abcdef012345»
Exception: could not resolve credentials «hunter2creds» in option("credentials", "«hunter2creds»")
Exception: .option("password", "«hunter2pw»").load()
Exception: .option('sasl.jaas.config', '«org.x required password=1»')
Exception: OPTIONS (url 'jdbc:x', password '«hunter2pw»')
Exception: TBLPROPERTIES ('access.key'='«k3yk3yk3y»')
Exception: dict(api_key='«k3yk3yk3y»', site='eu')
Exception: connect(host='db', passwd='«hunter2pw»')
Exception: Config(user=app, pass=«hunter2pw», host=db)
Exception: Settings(client_secret=SecretStr('«cl1ents3cret»'))
Exception: -Djavax.net.ssl.keyStorePassword=«changeit1» was not understood
Exception: unrecognized VM option -Dx.pw=«hunter2pw»
huggingface_hub.errors.HfHubHTTPError: 401 with hf_token «hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345»
OSError: «hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345» is not valid
slack_sdk.errors.SlackApiError: invalid_auth for «xoxb-123456789012-abcdefghijkl»
slack: SLACK_BOT_TOKEN=«xoxb123notthatlong»
pymongo.errors.OperationFailure: mongodb://u:«m0ngopass»@h1,h2/x?authSource=admin
pymongo: mongodb+srv://u:«m0ngopass»@c.example.net
pika.exceptions: amqp://guest:«guestpw1»@mq:5672/%2F
sqlalchemy.exc.OperationalError: (psycopg2) could not connect with dsn «host=db password=hunter2pw»
sentry_sdk.utils.BadDsn: SENTRY_DSN=«https://abcdef0123@o1.ingest.sentry.io/1»
pulsar: AuthenticationError authParams: «token:eyJabcdef012345»
git: fatal: Authentication failed for 'https://app:«ghp_0123456789abcdefghijABCDEFGHIJ012345»@github.com/a/b.git/'
git: fatal: could not read from https://«oauth2tokenabc»@gitlab.example.com/a/b.git
pip: Could not fetch https://__token__:«pypipw1234»@pypi.example.com/simple/x/
vault: permission denied, X-Vault-Token: «hvs.CAESIJ0123456789abcdefghij»
vault: VAULT_TOKEN=«s.abcdef0123456789»
kubectl: error: bearerToken: «abcdef0123456789»
net.snowflake.client.jdbc: private_key_passphrase=«hunter2pw» wrong
ssh: identity passphrase: «hunter2pw»
javax.naming.AuthenticationException: java.naming.security.credentials=«hunter2pw»
twilio: auth_token='«abcdef0123456789»'
datadog: DD_API_KEY=«0123456789abcdef» DD_APP_KEY=«fedcba9876543210»
openssl: -passin pass:«hunter2pw»
openssl: -pass pass:«hunter2pw» enc
sshpass -p «hunter2pw» ssh host
ERROR 1045: mysql --user=app --password «hunter2pw»
Invalid JWT «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop»
{"level":"error","db_password":"«hunter2pw»","msg":"x"}
{"headers": {"authorization": ["Basic «dXNlcjpodW50ZXIy»"]}}
<property><name>fs.s3a.secret.key</name><value>«s3crets3cret»</value></property>
<add key="x" password="«hunter2pw»"/>
""".strip().splitlines()
)
"""Texts of errors, as drivers, clients and programs write them."""

PHRASES: Final = tuple(
    line.strip()
    for line in """
The new password is «hunter2pw».
password is "«hunter2pw»", changed by ops
Password: «hunter2pw»
restart with password «hunter2pw1!»
pw: «hunter2pw»
pwd=«hunter2pw»
pass: «hunter2pw»
use pass '«hunter2pw»'
the api key is «k3yk3yk3y4»
API key: «k3yk3yk3y4»
api-key «k3yk3yk3y4» was rotated
apikey=«k3yk3yk3y4»
token: «tok-abcdef0123»
the token is «tok-abcdef0123»
token=«tok-abcdef0123»
access token «tok-abcdef0123» expired
new secret: «s3crets3cret1»
client secret «s3crets3cret1»
secret is '«s3crets3cret1»'
secret key = «s3crets3cret1»
creds: «app/hunter2pw»
creds are «app:hunter2pw»
credentials: «app/hunter2pw»
login app:«hunter2pw»@db.example.com
connect with redis://:«hunter2pw»@cache
curl -u app:«hunter2pw» works
curl --user app:«hunter2pw» works
curl -H "Authorization: Basic «dXNlcjpodW50ZXIy»"
curl -H 'X-Auth-Token: «tok-abcdef0123»'
Basic «dXNlcjpodW50ZXIyMzQ=» was refused
Bearer «abcdef0123456789»
webhook https://hooks.slack.com/services/«T000/B000/XXXXXXXXXXXX»
moved to https://discord.com/api/webhooks/«123456/AbCdEfGhIjKlMnOp»
GRANT ALL TO app IDENTIFIED BY '«hunter2pw»'
set PASSWORD '«hunter2pw»'
passphrase «correcthorse9»
passcode: «48151623»
psk = «wlanpsk123»
started with -Dx.pw=«hunter2pw»
started with --db-password «hunter2pw»
bot token «123456789:AAEhBOweik9ai2o01234567890abcdefghi»
hf token «hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345»
private key: «MIIEvQIBADANBg»
connection string: «Server=db;Uid=sa;Pwd=hunter2pw»
jwt: «abc.def.ghi012»
PAT «ghp_0123456789abcdefghijABCDEFGHIJ012345»
pat = «abcdefpat0123»
""".strip().splitlines()
)
"""Reasons and remarks that a user types."""

PLAIN_KEYS: Final = tuple(
    tuple(line.split(None, 1))
    for line in """
spark.sql.shuffle.partitions 200
key id
primaryKey order_id
primary_key order_id
foreignKey customer_id
keyBy user
key.column id
keyColumn id
keys a,b,c
group.key region
partitionKey day
partition.key day
record.key id
hoodie.datasource.write.recordkey.field id
hoodie.table.keygenerator.class org.apache.hudi.keygen.SimpleKeyGenerator
rowKey id
row.key id
sortKey ts
joinKey id
messageKey id
mergeKey id
kafka.key.deserializer org.apache.kafka.common.serialization.StringDeserializer
key.serializer org.apache.kafka.common.serialization.StringSerializer
includeKeys true
spark.sql.keywords on
keyspace shop
spark.cassandra.keyspace shop
keyword sale
keyboard de
keepalive true
spark.kerberos.keytab /etc/security/spark.keytab
keytab /etc/security/spark.keytab
spark.yarn.keytab /etc/security/spark.keytab
spark.kerberos.principal spark/host@REALM
tokens_per_second 50
max_tokens 4096
maxTokens 4096
tokenCount 17
tokenizer wordpiece
num_tokens 12
prompt_tokens 3
passenger_count 3
passengerCount 3
passengers 4
compass north
bypass true
spark.bypass.cache true
bypassMergeThreshold 200
spark.shuffle.sort.bypassMergeThreshold 200
passive false
pass_rate 0.9
passRate 0.9
passthrough true
pathPattern *.json
spark.path /x/y
pattern *.csv
patch 3
compat.version 4.3
patient_id p17
dispatch fast
author kim
authors kim,ann
authority north
spark.author kim
secretary ann
credit_limit 300
creditScore 700
credits 12
incredible true
crediting on
signal up
signature_count 4
design v2
assigned kim
signals a,b
siglevel 0.05
sasquatch yes
sasl.mechanism PLAIN
kafka.sasl.mechanism SCRAM-SHA-512
kafka.security.protocol SASL_SSL
kafka.sasl.kerberos.service.name kafka
sasl.login.class org.example.Login
spark.ssl.enabled true
spark.ssl.protocol TLSv1.3
spark.ssl.keyStoreType PKCS12
spark.ssl.keyStore /etc/ssl/spark.p12
ssl.keystore.type PEM
ssl.keystore.location /etc/ssl/k.p12
ssl.endpoint.identification.algorithm https
fs.s3a.aws.credentials.provider org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider
fs.s3a.endpoint https://s3.eu-central-1.amazonaws.com
fs.s3a.path.style.access true
fs.s3a.connection.maximum 100
fs.azure.account.auth.type OAuth
fs.azure.account.oauth.provider.type org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider
fs.gs.auth.type APPLICATION_DEFAULT
GOOGLE_APPLICATION_CREDENTIALS /etc/gcp/key.json
spark.kubernetes.driver.secrets.tls /etc/tls
spark.kubernetes.authenticate.driver.serviceAccountName spark
spark.kubernetes.authenticate.driver.mounted.oauthTokenFile /var/run/token
spark.authenticate true
spark.authenticate.enableSaslEncryption true
spark.network.crypto.enabled true
spark.network.crypto.keyLength 256
spark.io.encryption.enabled true
spark.io.encryption.keySizeBits 256
spark.redaction.regex (?i)secret|password
spark.sql.streaming.stateStore.rocksdb.blockSizeKB 4
spark.sql.adaptive.coalescePartitions.enabled true
spark.dynamicAllocation.cachedExecutorIdleTimeout 60s
spark.executor.memory 4g
spark.executor.cores 2
spark.driver.extraJavaOptions -Xmx1g -XX:+UseG1GC
spark.executor.extraJavaOptions -Dlog4j.level=INFO
spark.jars.packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0
spark.metrics.conf.*.sink.console.period 10
spark.eventLog.dir s3://logs/spark
spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.lake.warehouse s3://lake/wh
spark.sql.session.timeZone UTC
spark.sql.sources.partitionOverwriteMode dynamic
startingOffsets earliest
subscribe orders
kafka.bootstrap.servers b1:9092,b2:9092
kafka.group.id orders
maxOffsetsPerTrigger 10000
maxFilesPerTrigger 10
failOnDataLoss false
checkpointLocation s3://lake/cp
watermark 10 minutes
header true
headers true
includeHeaders true
mergeSchema true
inferSchema true
recordDelimiter ;
dbtable orders
driver org.postgresql.Driver
url jdbc:postgresql://db/orders
user app
username app
account acme
accountName acme
api https://api.example.com
api.version 2
apiVersion v1
access public
accessMode ReadWriteOnce
sharedMemory 1g
shared true
private false
privateIp 10.0.0.7
clientId web
client.id web
client.dns.lookup use_all_dns_ips
sessionTimeout 30s
session.timeout.ms 10000
session_window 5 minutes
master local[2]
masterUrl spark://m:7077
licensePlate B-XY 12
encryption on
encryptionMode SSE-KMS
hmacAlgorithm SHA256
subscription orders
subscriptionId s-17
functionName f
serviceName orders
service.id 7
column.name key
footer.lines 2
storage.level MEMORY_ONLY
storageClass gp3
connectionTimeout 30s
connection.id warehouse
connections 8
dsnow 1
cookieless true
cookie_count 3
bearing 270
jwtless yes
otpauth_enabled true
webhook_count 3
pwned 0
power 9
pwm 20
pinCount 4
kek_count 1
""".strip().splitlines()
)
"""Settings that stay readable, with their values."""

PLAIN_TEXTS: Final = tuple(
    line.strip()
    for line in """
The driver of epoch 17 ended with exit code 137.
Query revenue failed: java.lang.NullPointerException
KeyError: 'price'
KeyError: 'key'
key=17 value=3
primaryKey=17 and keyBy=user
spark.sql.shuffle.partitions=200
[STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE] The key has 3 fields, expected 2.
Partition key: day=2026-01-01
Unexpected token '}' at line 3
Unrecognized token 'abc': was expecting JSON
mismatched input 'FROM' expecting token ';'
tokens: 512
max_tokens=4096 were asked for
passenger_count=3 trip_distance=1.2
3 tests passed: all of them
The stage passed: 3 of 3
bypass: true
The secret orders-db was not found in namespace streams
Secret "orders-db" not found
The credentials provider org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider failed
fs.s3a.aws.credentials.provider=org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider
No credentials were found for host db
The password has expired
Wrong password for user app
password authentication failed for user "app"
The token has expired
token expired
invalid token
The access token is invalid
An API key is required
The API key is missing
credentials are missing
The secret is not mounted
The pass is complete
Basic authentication is required
Bearer authentication is required
Basic statistics were computed
basic tests
bearer of news
Author: kim
author=kim
signature of function f has changed
The design: three stages
Column pattern does not match
keytab /etc/security/spark.keytab cannot be read
spark.kerberos.keytab=/etc/security/spark.keytab
Login failed for user app@REALM
mail kim@example.com about it
https://example.com/a?page=2&sort=ts
jdbc:postgresql://db:5432/orders
s3a://bucket/path/key=1/part-0000.parquet
file:///data/streams/orders/checkpoints/000001
spark://m:7077 did not answer
k8s://https://10.0.0.1:6443
Connect to b1:9092 failed: timed out
hdfs://nn:8020/user/spark
image registry.example.com/spark:4.3@sha256:0123456789abcdef
commit 0123456789abcdef0123456789abcdef01234567
run id 3f2504e0-4f89-41d3-9a0c-0305e82c3301
Caused by: java.net.ConnectException: Connection refused
at org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:329)
-Dlog4j.level=INFO -Xmx4g
curl -u is not supported
curl -s https://example.com/health
psql -U app orders
docker run -u 1000:1000 image
IDENTIFIED BY is not supported here
The column "pass" does not exist
The column "token" does not exist
unresolved column 'secret' among id, amount
SELECT key, value FROM orders
GROUP BY key, window
--partitions 200 --key id
--keys a,b --output /data/out
sort key: ts
join key: customer_id
row key = id
dedup by (key, ts)
state key count: 12000
number of keys: 17
keys=17 rows=34
The watermark is 2026-11-21T12:00:00Z
pat on the back
pats: 3
PWD=/home/airflow
OLDPWD=/tmp
ssl.keystore.location=/etc/ssl/k.p12
GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json
/etc/secrets/db/username cannot be opened
credit=300 debit=20
rate limit: 50 tokens per second
cookie banner: off
sig=0.05
webhook delivery failed 3 times
web hook retries: 3
jwt expired
hf_model=small
the private network is down
shared memory is full
client closed the connection
license plate: B-XY 12
Access denied
storage level: MEMORY_ONLY
api version: 2
service account spark may not list pods
session window: 5 minutes
Basic plan has 3 seats
redis://cache:6379/0 refused
redis://cache:6379 user@example.com
10:15:30 app:orders started
time 12:30@host
topic orders:0@17
offset 17:3@b1
""".strip().splitlines()
)
"""Texts that stay readable."""


def plain(marked: str) -> str:
    """Return a text without the marks around its secrets."""
    return marked.replace("«", "").replace("»", "")


def secrets_in(marked: str) -> list[str]:
    """Return what stands between the marks."""
    return [part.partition("»")[0] for part in marked.split("«")[1:]]


def halves(rows: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the rows that the rules were written with, and the rows that were held back."""
    return rows[::2], rows[1::2]


KNOWN_MISSES: Final = frozenset(
    {"column-1:«AAECAwQFBgcICQoLDA0ODw==»; footer password: «AAECAw12»"}
)
"""Secrets without a name or a shape of their own."""
