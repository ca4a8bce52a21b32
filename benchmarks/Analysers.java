// BM25 with one of Lucene's analysers: java -cp anserini-fatjar.jar Analysers.java CLASS PASSAGES QUESTIONS K1 B N
// A passage and a question per line; prints the numbers of the N best passages of each question, best first.
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.search.*;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.util.QueryBuilder;

public class Analysers {
    public static void main(String[] args) throws Exception {
        Analyzer analyser = (Analyzer) Class.forName(args[0]).getDeclaredConstructor().newInstance();
        BM25Similarity bm25 = new BM25Similarity(Float.parseFloat(args[3]), Float.parseFloat(args[4]));
        ByteBuffersDirectory folder = new ByteBuffersDirectory();
        try (IndexWriter writer = new IndexWriter(folder, new IndexWriterConfig(analyser).setSimilarity(bm25))) {
            for (String text : Files.readAllLines(Path.of(args[1]))) {
                Document document = new Document();
                document.add(new TextField("text", text, Field.Store.NO));
                writer.addDocument(document);
            }
            writer.forceMerge(1);
        }
        IndexSearcher searcher = new IndexSearcher(DirectoryReader.open(folder));
        searcher.setSimilarity(bm25);
        QueryBuilder builder = new QueryBuilder(analyser);
        builder.setAutoGenerateMultiTermSynonymsPhraseQuery(false);
        for (String question : Files.readAllLines(Path.of(args[2]))) {
            Query query = builder.createBooleanQuery("text", question);
            ScoreDoc[] hits = query == null ? new ScoreDoc[0] : searcher.search(query, Integer.parseInt(args[5])).scoreDocs;
            System.out.println(Arrays.stream(hits).map(h -> String.valueOf(h.doc)).collect(Collectors.joining(" ")));
        }
    }
}
