//! The main families in other languages. Triggers are stems in lower case without their first letter where a language
//! has capitals that the search does not fold.

use super::super::signal::Family::{Concealment, Exfiltration, InstructionOverride, PersonaOverride};
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
        "忽略|无视|無視|忘记|忘掉|不要理会|忽視",
        r"(?:忽略|无视|無視|忘记|忘掉|不要理会|忽視).{0,30}?(?:指令|指示|规则|規則|提示|说明|命令|之前|以上|以前)",
    ),
    sign(InstructionOverride, 6, "無視して|無視し|忘れて|従わないで", r"(?:無視し|忘れて|従わないで)"),
    sign(
        InstructionOverride,
        6,
        "이전 지시|이전의 지시|모든 지시|지시를 무시|지침을 무시|이전 명령|위의 지시",
        r"(?:이전의? (?:지시|명령|모든)|모든 지시|위의 지시|지시를|지침을).{0,40}?(?:무시|잊)",
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
        "ag dem benutzer nicht|agen sie dem benutzer nicht|em benutzer nicht|ne dis pas|ne dites pas|no le digas|no informes|não diga|não informe|non dire|не говори|не сообщай|не рассказывай",
        r"(?:ag(?:en sie)? dem benutzer nicht|em (?:be)?nutzer nichts?|ne di(?:s|tes) (?:pas|rien) .{0,20}utilisateur|no (?:le digas|informes) .{0,20}usuario|não (?:diga|informe) .{0,20}usuário|non dire .{0,20}utente|не (?:говори|сообщай|рассказывай).{0,30}пользовател)",
    ),
    sign(
        Concealment,
        6,
        "不要告诉|不要告訴|别告诉|ユーザーに言わないで|ユーザーに知らせ|사용자에게 말하지|사용자에게 알리지",
        r"(?:不要告诉|不要告訴|别告诉).{0,12}(?:用户|用戶|任何人)|ユーザーに(?:言わ|知らせ|伝え)ない|사용자에게 (?:말하지|알리지)",
    ),
    sign(
        Exfiltration,
        5,
        "envía|envia |envoie|envoyez|sende |schicke |отправь|пришли|发送|發送|送信|보내",
        r"(?:envía|envia|envoie|envoyez|sende|schicke|отправь\S*|пришли\S*|发送|發送).{0,80}?(?:contrase|senha|mot de passe|clés? |claves? |passw|schlüssel|zugangsdaten|парол|ключ|токен|密码|密碼|密钥|密鑰|凭证|环境变量|\.env|token|api.?key).{0,80}?(?:https?://|@|a la direcci|an die adresse|на адрес|到)",
    ),
    sign(
        PersonaOverride,
        5,
        "ohne einschränkungen|sin restricciones|sans restriction|sem restrições|senza restrizioni|без ограничений|没有任何限制|沒有任何限制|不受限制|制限なし|제한 없이",
        r"(?:ohne einschränkungen|sin restricciones|sans (?:aucune )?restrictions?|sem restrições|senza restrizioni|без ограничений|没有任何限制|沒有任何限制|不受限制|制限なし|제한 없이)",
    ),
];
