//! The main families in other languages. Triggers are stems in lower case without their first letter where a language
//! has capitals that the search does not fold.

use super::super::signal::SignalFamily::{Concealment, Exfiltration, InstructionOverride, PersonaOverride};
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        InstructionOverride,
        6,
        "ignoriere|vergiss|missachte",
        r"(?:ignoriere|vergiss|missachte)n?(?: sie)? .{0,40}?(?:anweisungen|instruktionen|vorgaben|regeln|befehle|anleitungen)",
    ),
    sign(
        InstructionOverride,
        6,
        "ignorez|ignore |oubliez|oublie |ne tiens pas compte|ne tenez pas compte",
        r"(?:ignorez?|oubliez?|ne ten(?:ez|s) pas compte|ne tiens pas compte) .{0,30}?(?:instructions|consignes|directives|règles|ordres) .{0,20}?(?:précédent|antérieur|ci-dessus|initial|reçu)",
    ),
    sign(
        InstructionOverride,
        6,
        "ignora|olvida|ignore todas|ignore as|esque|desconsidere|dimentica|ignorar|olvide|haz caso omiso",
        r"(?:ignora|olvida|olvide|ignore|esqueça|desconsidere|dimentica|ignorar|haz caso omiso) .{0,30}?(?:instrucciones|instruções|istruzioni|reglas|regras|regole|órdenes|ordens|indicaciones|direttive) ?.{0,30}?(?:anterior\w*|previ\w+|precedent\w*|acima|arriba|sopra)",
    ),
    sign(
        InstructionOverride,
        6,
        "гнориру|абудь|е обращай внимания|тбрось",
        r"(?:гнориру\S*|абудь\S*|е обращай внимания на|тбрось) .{0,60}?(?:инструкци|указани|правил|команд|предыдущ|сообщени)",
    ),
    sign(
        InstructionOverride,
        6,
        "гноруй|абудь|е зважай",
        r"(?:гноруй\S*|абудь\S*|е зважай\S* на) .{0,60}?(?:інструкці|вказівк|настанов|правил|наказ|попередн)",
    ),
    sign(
        InstructionOverride,
        6,
        "忽略|无视|無視|忘记|忘掉|不要理会|忽視",
        r"(?:忽略|无视|無視|忘记|忘掉|不要理会|忽視).{0,30}?(?:指令|指示|规则|規則|提示|说明|命令|之前|以上|以前)",
    ),
    sign(
        InstructionOverride,
        6,
        "指示|命令|ルール|プロンプト|制約|無視し",
        r"(?:(?:指示|命令|ルール|プロンプト|制約).{0,45}?(?:無視し|忘れて|従わないで)|無視し.{0,60}?(?:指示|命令|ルール)に従)",
    ),
    sign(
        InstructionOverride,
        6,
        "이전 지시|이전의 지시|모든 지시|지시를 무시|지침을 무시|이전 지침|모든 지침|이전 명령|위의 지시",
        r"(?:이전의? (?:지시|지침|명령|모든)|모든 (?:지시|지침)|위의 지시|지시를|지침을).{0,40}?(?:무시|잊)",
    ),
    sign(InstructionOverride, 6, "تجاهل|انس ", r"(?:تجاهل|انس).{0,60}?(?:التعليمات|الأوامر|القواعد|السابقة)"),
    sign(
        InstructionOverride,
        6,
        "पिछले निर्देश|सभी निर्देश|निर्देशों को अनदेखा",
        r"(?:पिछले|सभी|निर्देशों).{0,80}?(?:अनदेखा|भूल|नज़रअंदाज़)",
    ),
    sign(
        InstructionOverride,
        6,
        "zignoruj|ignoruj|negeer|talimatları|önceki talimat",
        r"(?:z?ignoruj .{0,40}?(?:instrukcj|polece|zasad)|negeer .{0,40}?(?:instructies|opdrachten|regels)|(?:önceki )?talimatlar\S* .{0,40}?(?:yok say|görmezden|unut))",
    ),
    sign(
        Concealment,
        6,
        "sag dem benutzer|sag dem nutzer|sage dem benutzer|sagen sie dem benutzer|verrate dem benutzer|informiere den benutzer nicht|informiere den nutzer nicht|ne dis pas|ne dis rien|ne dites pas|ne dites rien|no le digas|no informes|não diga|não informe|non dire|non informare",
        r"(?:(?:sage?|sagen sie|verrate) dem (?:be)?nutzer nichts?|informiere den (?:be)?nutzer nicht|ne di(?:s|tes) (?:pas|rien) .{0,20}utilisateur|no (?:le digas|informes) .{0,20}usuario|não (?:diga|informe) .{0,20}(?:usuário|utilizador)|non (?:dire|informare) .{0,20}utente)",
    ),
    sign(
        Concealment,
        6,
        "е говори|е сообщай|е рассказывай|е кажи|е повідомляй|е розповідай",
        r"(?:е (?:говори|сообщай|рассказывай)\S* .{0,40}пользовател|е (?:кажи|говори|повідомляй|розповідай)\S* .{0,40}користувач)",
    ),
    sign(
        Concealment,
        6,
        "nie mów|nie informuj|nie powiadamiaj|kullanıcıya|kullanıcıyı bilgilendirme|vertel de gebruiker niet",
        r"(?:nie (?:mów|informuj|powiadamiaj)(?:cie)? .{0,30}użytkownik|kullanıcıya .{0,30}?(?:söyleme|bildirme|bahsetme|anlatma)(?:yin|yiniz)?\b|kullanıcıyı bilgilendirme(?:yin|yiniz)?\b|vertel de gebruiker niet)",
    ),
    sign(
        Concealment,
        6,
        "不要告诉|不要告訴|别告诉|ユーザーに|사용자에게 말하지|사용자에게 알리지|사용자에게는",
        r"(?:不要告诉|不要告訴|别告诉).{0,12}(?:用户|用戶|任何人)|ユーザーに.{0,45}?(?:言わ|知らせ|伝え|話さ|教え)ないで|사용자에게는? .{0,30}?(?:말하지|알리지) ?마",
    ),
    sign(
        Concealment,
        6,
        "لا تخبر|لا تُخبر|उपयोगकर्ता को|यूज़र को",
        r"(?:لا تُ?خبر.{0,40}(?:المستخدم|أحد)|(?:उपयोगकर्ता|यूज़र) को.{0,80}?(?:न|मत|नहीं) बता)",
    ),
    sign(
        Exfiltration,
        5,
        "envía|envia |envie |envoie|envoyez|invia |sende |schicke |wyślij|prześlij|тправь|ришли|адішли|ідправ|أرسل",
        r"(?:envía|envia|envie|envoie|envoyez|invia|sende|schicke|wyślij|prześlij|тправь\S*|ришли\S*|адішли\S*|ідправ\S*|أرسل).{0,80}?(?:contrase|senha|mots? de passe|clés? |chaves? |chiavi |claves? |passw|schlüssel|zugangsdaten|hasł|klucz|парол|ключ|токен|كلمات المرور|كلمة المرور|مفاتيح|\.env|token|api.?key).{0,80}?(?:https?://|@|a la direcci|an die adresse|на адрес)",
    ),
    sign(
        Exfiltration,
        5,
        "发送|發送|密码|密碼|密钥|密鑰|凭证|环境变量",
        r"(?:(?:发送|發送).{0,60}?(?:密码|密碼|密钥|密鑰|凭证|环境变量|\.env|token|api.?key).{0,60}?(?:https?://|@|到)|(?:密码|密碼|密钥|密鑰|凭证|环境变量).{0,60}?(?:发送|發送|上传|发)(?:到|至|给) ?(?:https?://|[\w.]+@))",
    ),
    sign(
        Exfiltration,
        5,
        "パスワード|apiキー|秘密鍵|認証情報|環境変数|비밀번호|api 키|인증 정보|환경 변수|parolalar|şifreler|api anahtar|पासवर्ड|api कुंज",
        r"(?:パスワード|apiキー|秘密鍵|認証情報|環境変数|비밀번호|api 키|인증 정보|환경 변수|parolalar|şifreler|api anahtar|पासवर्ड|api कुंज).{0,120}?(?:https?://|[\w.]+@).{0,80}?(?:送信|送って|アップロード|보내|전송|업로드|gönder|yükle|भेज)",
    ),
    sign(
        PersonaOverride,
        5,
        "ohne einschränkungen|sin restricciones|sans restriction|sem restrições|senza restrizioni|без ограничений|没有任何限制|沒有任何限制|不受限制|制限なし|제한 없이",
        r"(?:ohne einschränkungen|sin restricciones|sans (?:aucune )?restrictions?|sem restrições|senza restrizioni|без ограничений|没有任何限制|沒有任何限制|不受限制|制限なし|제한 없이)",
    ),
];
