package bbflow.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** What the lines of one direction are checked by (the engine's FORMAT.md, "Seal"): it stands before each, as digits. */
final class Seal {
    private final SecretKeySpec key;
    private long number;

    Seal(byte[] secret, String nonces, String side) throws GeneralSecurityException {
        byte[] drawn = hmac(Connection.bytes(nonces), secret);
        key = new SecretKeySpec(hmac(drawn, Connection.bytes("bbflow " + Connection.VERSION + " " + side + "\u0001")), "AES");
    }

    /** Returns the tag of the next line, which only who has the key can make, and for this line only. */
    String next(byte[] text) throws GeneralSecurityException {
        byte[] nonce = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN).putInt(0).putLong(number++).array();
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(128, nonce));
        cipher.updateAAD(text);
        return HexFormat.of().formatHex(cipher.doFinal());
    }

    static byte[] hmac(byte[] key, byte[] text) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text);
    }
}
